// Command campaign runs the layers under jepsen one after the other for a time, from seeds that no earlier run used, and keeps what they
// found in one directory: state.json says how far it is, logs has the output of what failed, reports a page for each run and
// a list of all.
//
// It is what `make jepsen`, `make jepsen-long HOURS=` and `make jepsen-replay SEED=` run. One that is interrupted continues when it is
// started again with the same directory.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	var o options
	flag.DurationVar(&o.total, "for", 10*time.Minute, "how long all layers take together; what earlier runs took counts when -resume is given")
	flag.BoolVar(&o.resume, "resume", false, "continue the campaign of this directory instead of beginning another")
	flag.DurationVar(&o.portion, "portion", time.Minute, "how long one run of a layer takes, about")
	flag.StringVar(&o.dir, "dir", ".cache/jepsen", "where programs, state, logs and reports are")
	layers := flag.String("layers", "sim,raftsim,cluster", "the layers, separated by commas: sim, raftsim, cluster, lab")
	flag.StringVar(&o.replay, "replay", "", "one seed of one layer again, as in sim:17, with everything it has to say")
	flag.Parse()
	o.layers = strings.Split(*layers, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "jepsen:", err)
		os.Exit(1)
	}
}
