package store

import "errors"

// Why Open refuses a data folder.
var (
	// ErrRefused: the folder is not what it says, or is damaged (S21, S22).
	ErrRefused = errors.New("data folder refused")
	// ErrInUse: another process holds the folder.
	ErrInUse = errors.New("data folder is in use by another process")
	// ErrQuarantined: this member diverged and keeps its files for study (S23).
	ErrQuarantined = errors.New("member is quarantined")
)
