// Command mutants changes the product's decisions in one place at a time, and asks the tests whether they notice.
//
// A seed chooses the mutants among all that there are of the packages that decide: fsm, executor/plan and raftnode. Each is run against
// the tests of its package and, where those pass, against the short form of jepsen/sim. One that both pass survives: it is a missing test,
// or it changes nothing, for which reasons.csv has the reason. MUTANTS.md is the result.
//
// All mutants of a package are compiled into one program, in which an environment variable switches one on; so a mutant costs a run of
// tests and no build. What was found is kept in the directory of -state, and an interrupted run continues.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	var o options
	flag.IntVar(&o.count, "count", 300, "how many mutants")
	flag.Int64Var(&o.seed, "seed", 1, "which ones")
	flag.StringVar(&o.state, "state", ".cache/mutants", "where programs and results are kept")
	flag.BoolVar(&o.fresh, "fresh", false, "forget earlier results")
	flag.StringVar(&o.only, "only", "", "only mutants whose name contains this; no page is written")
	flag.BoolVar(&o.quick, "quick", false, "only the quick tests of the package; who survives them is run against the others without this")
	flag.BoolVar(&o.again, "again", false, "run the survivors again: there are new tests")
	flag.BoolVar(&o.page, "page", false, "run none, and write the page of what is known")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}
