package replicasync

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"
)

func TestReplicasWithoutASyncAreNotRead(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), Analyzer, "example.com/fsm", "example.com/reads")
}
