package client

import (
	"log/slog"

	"k8s.io/klog/v2"
)

// LogTo has client-go say to log what it says to nobody else. It is for the whole process: call it before the first connection.
func LogTo(log *slog.Logger) { klog.SetSlogLogger(log) }
