package faults

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

var (
	builder harness.Builder
	long    = flag.Bool("long", os.Getenv("HOLDFAST_LONG") != "", "run the long form of the tests")
)

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if err := builder.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}
