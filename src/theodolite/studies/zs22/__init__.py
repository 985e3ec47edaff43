"""ZS22: what fine-tuning does to the regions of labels, by classifier probes and DirectProbe."""
