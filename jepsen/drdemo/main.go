// Command drdemo shows a volume that is replicated between two sites, and a site that loses its power in the middle of
// its work: with guests that have kernels, disks and networks of their own. It fails when a step's expectation does not
// hold.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

func main() {
	binary := flag.String("binary", "bin/holdfast", "the `file` with the holdfast to show")
	flag.Parse()
	if err := lab.WhyUnavailable(); err != nil {
		fail(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	d := &demo{out: os.Stdout, started: time.Now(), binary: *binary}
	if err := d.run(ctx); err != nil {
		fail(err)
	}
}

func fail(why error) {
	fmt.Fprintln(os.Stderr, "drdemo:", why)
	os.Exit(1)
}
