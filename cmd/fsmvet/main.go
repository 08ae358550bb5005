// Command fsmvet refuses in package fsm what would let two members that applied the
// same log hold different states. It is a vet tool:
//
//	go build -o bin/fsmvet ./cmd/fsmvet && go vet -vettool=bin/fsmvet ./fsm
package main

import (
	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/holdfast-storage/holdfast/cmd/fsmvet/determinism"
)

func main() { unitchecker.Main(determinism.Analyzer) }
