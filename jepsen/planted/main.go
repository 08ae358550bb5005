// Command planted runs each bug that is planted in the product against the layer that must find it, and writes PLANTED.md: which layer
// found which bug, after how much, and which bugs none found.
//
// Each catcher runs once without a bug first: where it fails then, that it fails with one proves nothing. What a run found is kept in
// the directory of -state, so a run that was interrupted continues; -fresh begins anew.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/plantedbug"
)

func main() {
	within := flag.Duration("within", 25*time.Second, "processor time that a catcher has for one bug")
	only := flag.String("only", "", "these bugs, separated by commas; empty: all")
	state := flag.String("state", ".cache/planted", "where programs and results are kept")
	fresh := flag.Bool("fresh", false, "forget earlier results")
	page := flag.String("page", "jepsen/planted/PLANTED.md", "the page to write; empty: none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, options{within: *within, only: names(*only), state: *state, fresh: *fresh, page: *page}); err != nil {
		fmt.Fprintln(os.Stderr, "planted:", err)
		os.Exit(1)
	}
}

func names(list string) (bugs []plantedbug.Bug) {
	for _, name := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' }) {
		bugs = append(bugs, plantedbug.Bug(name))
	}
	return bugs
}
