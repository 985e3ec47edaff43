"""IL23: an Isotropy Layer between a frozen encoder and its head, compared with IsoBN."""
