//go:build !plantedbug

package plantedbug

// Is tells whether the bug is on: never in this build.
func Is(Bug) bool { return false }

// Coin answers differently from call to call where the bug is on: never in this build.
func Coin(Bug) bool { return false }
