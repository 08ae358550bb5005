package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

type options struct {
	total, portion time.Duration
	resume         bool
	dir            string
	layers         []string
	replay         string
}

// campaign is one run of this command.
type campaign struct {
	options
	out    io.Writer
	state  *state
	chosen []*layer
}

func run(ctx context.Context, o options, out io.Writer) error {
	if o.replay != "" {
		return replay(ctx, o, out)
	}
	c := &campaign{options: o, out: out}
	if err := c.prepare(ctx); err != nil {
		return err
	}
	for c.state.took() < o.total && ctx.Err() == nil {
		if err := c.one(ctx, c.next()); err != nil {
			return err
		}
	}
	return c.conclude(ctx)
}

// prepare builds the layers' programs before any time counts.
func (c *campaign) prepare(ctx context.Context) (err error) {
	if err := os.MkdirAll(filepath.Join(c.dir, "logs"), 0o755); err != nil {
		return fmt.Errorf("make the campaign's directory: %w", err)
	}
	for _, name := range c.layers {
		l, err := layerOf(name)
		if err != nil {
			return err
		}
		if err := l.build(ctx, c.dir); err != nil {
			return err
		}
		c.chosen = append(c.chosen, l)
	}
	c.state, err = openState(c.dir, c.resume)
	return err
}

// next is the layer that is furthest behind its share of the time.
func (c *campaign) next() *layer {
	return slices.MinFunc(c.chosen, func(a, b *layer) int {
		return int(c.state.of(a).Took)/a.share - int(c.state.of(b).Took)/b.share
	})
}

// firstSeeds is how many seeds a layer's first run has, of which the time of one is not known.
const firstSeeds = 20

// seedsFor is how many seeds take as long as a portion.
func (c *campaign) seedsFor(p *progress) int {
	if p.Seeds == 0 {
		return firstSeeds
	}
	each := max(p.Took/time.Duration(p.Seeds), time.Microsecond)
	return max(1, int(c.length()/each))
}

// length is how long the next run takes: no longer than what is left of the whole.
func (c *campaign) length() time.Duration {
	left := c.total - c.state.took()
	return max(min(c.portion, left), time.Second)
}

// one does one run of a layer and notes what became of it. A run that was interrupted counts as not begun.
func (c *campaign) one(ctx context.Context, l *layer) error {
	p := c.state.of(l)
	first, seeds := p.Next, 1
	if l.seeds {
		seeds = c.seedsFor(p)
	}
	cmd, err := l.command(ctx, c.dir, l.args(first, seeds, c.length().Round(time.Second)))
	if err != nil {
		return err
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	err = cmd.Run()
	if ctx.Err() != nil {
		return nil
	}
	p.Next, p.Seeds, p.Runs, p.Took = first+seeds, p.Seeds+seeds, p.Runs+1, p.Took+time.Since(began)
	if err != nil {
		if err := c.failed(l, p, first, out.Bytes()); err != nil {
			return err
		}
	}
	fmt.Fprintln(c.out, c.line())
	return c.state.save()
}

// failed keeps the log of a run that failed, and says how it is repeated.
func (c *campaign) failed(l *layer, p *progress, first int, out []byte) error {
	path := filepath.Join(c.dir, "logs", fmt.Sprintf("%s-%d.log", l.name, first))
	if err := os.WriteFile(path, out, 0o644); err != nil {
		return fmt.Errorf("keep the log of a run that failed: %w", err)
	}
	again := fmt.Sprintf("%s:%d", l.name, failingSeed(l, first, out))
	p.Failures = append(p.Failures, again)
	fmt.Fprintf(c.out, "FAILED %s: see %s; again: make jepsen-replay SEED=%s\n", l.name, path, again)
	return nil
}

var seedPattern = regexp.MustCompile(`\b(?:seed|schedule)[ =](\d+)`)

// failingSeed is the seed that the output names, of a layer that runs many; else the run's first.
func failingSeed(l *layer, first int, out []byte) int {
	if m := seedPattern.FindSubmatch(out); l.seeds && m != nil {
		if seed, err := strconv.Atoi(string(m[1])); err == nil {
			return seed
		}
	}
	return first
}

// line is the progress in one line.
func (c *campaign) line() string {
	parts := []string{fmt.Sprintf("%v of %v", c.state.took().Round(time.Second), c.total)}
	for _, l := range c.chosen {
		p := c.state.of(l)
		text := fmt.Sprintf("%s %d runs in %v", l.name, p.Runs, p.Took.Round(time.Second))
		if l.seeds {
			text = fmt.Sprintf("%s %d seeds in %v", l.name, p.Seeds, p.Took.Round(time.Second))
		}
		if n := len(p.Failures); n > 0 {
			text += fmt.Sprintf(" (%d FAILED)", n)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// conclude writes the list of runs, and fails where one of them did.
func (c *campaign) conclude(ctx context.Context) error {
	if err := c.state.save(); err != nil {
		return err
	}
	index, err := writeIndex(filepath.Join(c.dir, "reports"))
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "the reports: %s\n", index)
	if ctx.Err() != nil {
		return errors.New("interrupted: start it again with -resume to continue")
	}
	if failures := c.state.failures(); len(failures) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(failures, " "))
	}
	return nil
}

// replay repeats one seed and shows everything it says.
func replay(ctx context.Context, o options, out io.Writer) error {
	name, number, _ := strings.Cut(o.replay, ":")
	l, err := layerOf(name)
	if err != nil {
		return err
	}
	seed, err := strconv.Atoi(number)
	if err != nil {
		return fmt.Errorf("a seed is a layer and a number, as in sim:17, not %q", o.replay)
	}
	if err := l.build(ctx, o.dir); err != nil {
		return err
	}
	cmd, err := l.command(ctx, o.dir, l.again(seed))
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s failed: %w", o.replay, err)
	}
	return nil
}
