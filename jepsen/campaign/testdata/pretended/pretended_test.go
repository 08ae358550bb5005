// Package pretended is a layer that does nothing, and fails at one seed.
package pretended

import (
	"flag"
	"testing"

	"github.com/holdfast-storage/holdfast/jepsen/catalog"
	"github.com/holdfast-storage/holdfast/jepsen/report"
)

var (
	first = flag.Int("pretended.first", 1, "the first seed")
	seeds = flag.Int("pretended.seeds", 1, "how many")
	seed  = flag.Int("pretended.seed", 0, "one seed again")
)

const failing = 7

func TestSeeds(t *testing.T) {
	if *seed != 0 {
		*first, *seeds = *seed, 1
	}
	run := report.New(catalog.Lab, t.Name(), "")
	run.CountWork(catalog.Writers, *seeds)
	if _, err := run.Write(report.Dir()); err != nil {
		t.Fatal(err)
	}
	if *first <= failing && failing < *first+*seeds {
		t.Fatalf("seed %d: stamps went back", failing)
	}
}
