package csiconv

import "github.com/holdfast-storage/holdfast/fsm"

// MaxString is CSI's limit of a string field that has none of its own, in bytes.
const MaxString = 128

// Message fits a text into one of CSI's string fields.
func Message(text string) string { return fsm.Truncate(text, MaxString) }
