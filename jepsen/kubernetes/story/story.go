// Package story is how stories are told: one after another, each with its times, whatever became of the one before.
package story

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/kit"
)

// Story is one thing that a user does, and what the cluster must have made of it.
type Story struct {
	Name  string // a few words joined by dashes; also its namespace
	Tells string // one sentence: what is done and seen
	Limit time.Duration
	Tell  func(context.Context, *Teller) error
	// Needs says why the story cannot be told on this cluster; nil: it always can.
	Needs func(context.Context, *Teller) error
}

// Teller is what a story is told with: a kit of its own namespace, and its times.
type Teller struct {
	*kit.Kit
	// Settings are what the stories are told of.
	Settings Settings
	times    []Time
	notes    []string
}

// Settings are the same for all stories.
type Settings struct {
	Chart    string // folder of the chart
	Helm     string // version of the helm that installs it
	Tag      string // of the image
	Holdfast string // the program, for what is done outside of the cluster
	Reports  string // folder
	OnHosts  bool   // the driver is installed without the chart, by programs on the hosts
	// ThinPools: the driver is on the nodes with kernels of their own alone, and its pools are thin pools of LVM.
	ThinPools bool
	Minutes   int // how long stories of random faults go on
	// SuiteFocus is a regular expression of the tests of Kubernetes' own suite that are run; empty: all of the driver.
	SuiteFocus string
	Say        func(format string, args ...any)
}

// Time is how long one part of a story took.
type Time struct {
	What string
	Took time.Duration
}

// Time does a part of the story that is measured.
func (t *Teller) Time(what string, do func() error) error {
	begun := time.Now()
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	t.Took(what, time.Since(begun))
	return nil
}

// Took adds a time that was measured otherwise.
func (t *Teller) Took(what string, d time.Duration) {
	t.times = append(t.times, Time{what, d})
	t.Settings.Say("  %s: %s", what, d.Round(10*time.Millisecond))
}

// Note adds a sentence to the story's row.
func (t *Teller) Note(format string, args ...any) {
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
	t.Settings.Say("  "+format, args...)
}

// Result is what became of a story.
type Result struct {
	Story   Story
	Times   []Time
	Notes   []string
	Took    time.Duration
	Failed  error
	Skipped error // why it could not be told
}

// Run tells the stories whose names match, in order, and reports after each.
func Run(ctx context.Context, k *kit.Kit, s Settings, stories []Story, only *regexp.Regexp, report func([]Result) error) error {
	var results []Result
	for _, one := range stories {
		if !only.MatchString(one.Name) {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s.Say("%s: %s", one.Name, one.Tells)
		results = append(results, tell(ctx, k, s, one))
		if err := report(results); err != nil {
			return err
		}
	}
	return outcome(results)
}

func tell(ctx context.Context, k *kit.Kit, s Settings, one Story) Result {
	t := &Teller{Kit: k.In("story-" + one.Name), Settings: s}
	r := Result{Story: one}
	ctx, cancel := context.WithTimeout(ctx, one.Limit)
	defer cancel()
	if one.Needs != nil {
		if r.Skipped = one.Needs(ctx, t); r.Skipped != nil {
			s.Say("  not told: %v", r.Skipped)
			return r
		}
	}
	begun := time.Now()
	r.Failed = t.inNamespace(ctx, one)
	r.Took, r.Times, r.Notes = time.Since(begun), t.times, t.notes
	if r.Failed != nil {
		s.Say("  FAILED after %s: %v", r.Took.Round(time.Second), r.Failed)
	}
	return r
}

// inNamespace tells the story in a namespace that is gone afterwards, with everything in it, unless the story failed: then it stays as
// it is until the next time, to be looked at.
func (t *Teller) inNamespace(ctx context.Context, one Story) error {
	if err := t.removeNamespace(ctx); err != nil {
		return err
	}
	if err := t.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", t.Namespace); err != nil {
		return err
	}
	if err := one.Tell(ctx, t); err != nil {
		return err
	}
	return t.removeNamespace(ctx)
}

func (t *Teller) removeNamespace(ctx context.Context) error {
	if err := t.Delete(ctx, "namespaces", t.Namespace, false); err != nil {
		return err
	}
	if err := t.Gone(ctx, 3*time.Minute, "namespaces", t.Namespace); err != nil {
		return fmt.Errorf("remove what the story left: %w", err)
	}
	return nil
}

func outcome(results []Result) error {
	failed, told := 0, 0
	for _, r := range results {
		if r.Skipped == nil {
			told++
		}
		if r.Failed != nil {
			failed++
		}
	}
	switch {
	case len(results) == 0:
		return errors.New("no story has such a name")
	case told == 0:
		return errors.New("none of these stories could be told")
	case failed > 0:
		return fmt.Errorf("%d of %d stories failed", failed, len(results))
	}
	return nil
}
