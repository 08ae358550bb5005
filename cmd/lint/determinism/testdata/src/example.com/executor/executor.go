// Package executor stands for one of which only values may be used.
package executor

import "context"

type Device struct{ Size int64 }

func (d Device) Empty() bool { return d.Size == 0 }

func (d Device) Write() error { return nil }

type Backend interface{ Size() int64 }

func Look(context.Context) Device { return Device{} }
