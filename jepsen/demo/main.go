// Command demo shows a cluster that loses its leader in the middle of its work, with real processes, loop
// devices, filesystems and mounts. It fails when a step's expectation does not hold.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

func main() {
	binary := flag.String("binary", "bin/holdfast", "the `file` with the holdfast to show")
	flag.Parse()
	if why := harness.WhyUnavailable(); why != "" {
		fail("the demo " + why)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := &demo{out: os.Stdout, started: time.Now(), binary: *binary}
	if err := s.run(ctx); err != nil {
		fail(err.Error())
	}
}

func fail(why string) {
	fmt.Fprintln(os.Stderr, "demo: "+why)
	os.Exit(1)
}
