package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// demo is one run.
type demo struct {
	out        io.Writer
	binary     string
	started    time.Time
	stepNumber int
	cluster    *harness.Cluster
	co         *harness.CO
	staged     []*mountedVolume           // the volumes that are in use, with what was written to them
	volumes    map[string]*harness.Volume // every volume, by name

	snapshot string // the id of the snapshot
}

// step is one step of the demo; it fails when what its title says does not hold.
type step struct {
	title string
	run   func(context.Context) error
}

// run runs all steps and cleans up, whatever happened.
func (s *demo) run(ctx context.Context) (err error) {
	if s.binary, err = filepath.Abs(s.binary); err != nil {
		return err
	}
	s.volumes = map[string]*harness.Volume{}
	defer func() {
		if s.cluster != nil {
			err = errors.Join(err, s.cluster.Clean(context.WithoutCancel(ctx)))
		}
	}()
	for _, st := range []step{
		{"Three controllers and a node start, each a process of its own", s.start},
		{"Volumes are created, each at another controller", s.create},
		{"They are published, formatted, mounted and written to", s.stageAndMount},
		{"A burst of creates, and in the middle of it the leader is killed", s.burst},
		{"Every name has exactly one volume and one file", s.checkOwners},
		{"Each volume in use has exactly one loop device; the others have none", s.devices},
		{"The data is what was written", s.verify},
		{"A snapshot is taken under a writer and restored as a new volume", s.restore},
		{"A volume grows while it is mounted", s.expand},
		{"What the log remembers of one volume", s.history},
		{"The audit, and the members' states", s.audit},
		{"Everything is taken down again", s.tearDown},
	} {
		if err := s.runStep(ctx, st); err != nil {
			return fmt.Errorf("%s: %w", st.title, err)
		}
	}
	s.printf("")
	s.printf("Done in %s.", s.elapsed(s.started))
	return nil
}

func (s *demo) runStep(ctx context.Context, st step) error {
	s.stepNumber++
	s.printf("")
	s.printf("%d. %s", s.stepNumber, st.title)
	begin := time.Now()
	if err := st.run(ctx); err != nil {
		return err
	}
	s.printf("   (%s)", s.elapsed(begin))
	return nil
}

// printf prints a line.
func (s *demo) printf(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

// printStepf prints a line of a step.
func (s *demo) printStepf(format string, args ...any) { s.printf("   "+format, args...) }

func (s *demo) elapsed(t time.Time) time.Duration { return time.Since(t).Round(time.Millisecond) }
