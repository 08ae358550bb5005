//go:build plantedbug

package plantedbug

import "os"

// planted is the bug that is on in this process, empty for none.
var planted = Bug(os.Getenv(Environment))

// Is tells whether the bug is on.
func Is(b Bug) bool { return b == planted }

// Coin answers differently from call to call where the bug is on: as an iteration over a map does.
func Coin(b Bug) bool {
	for heads := range map[bool]bool{false: true, true: true} {
		return heads && Is(b)
	}
	return false
}
