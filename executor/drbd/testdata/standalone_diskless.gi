Device is unconfigured
