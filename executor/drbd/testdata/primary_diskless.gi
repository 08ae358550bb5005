Device has no disk
