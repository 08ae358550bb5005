// Command switchable has a bug that the tag switches on.
package main

import (
	"os"

	"github.com/holdfast-storage/holdfast/plantedbug"
)

func main() {
	if plantedbug.Is(plantedbug.PublishNotExclusive) {
		os.Exit(1)
	}
}
