"""RP21 and its reproduction PD22: isotropy before and after fine-tuning on sentence similarity."""
