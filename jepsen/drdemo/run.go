package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// demo is one run.
type demo struct {
	out        io.Writer
	binary     string
	started    time.Time
	stepNumber int
	lab        *lab.Lab
	cluster    *lab.Cluster
	sites      map[string]*site // A and B

	id      string // of the volume
	context map[string]string
	sums    map[string]string // of the files that were written to it
	diary   diary
}

// run runs all steps and cleans up, whatever happened.
func (d *demo) run(ctx context.Context) (err error) {
	if d.binary, err = filepath.Abs(d.binary); err != nil {
		return err
	}
	d.sums = map[string]string{}
	defer func() {
		if d.lab != nil {
			err = errors.Join(err, d.lab.Close())
		}
	}()
	for _, st := range []struct {
		title string
		run   func(context.Context) error
	}{
		{"Two sites and a witness start, each a machine with a kernel, disks and networks of its own", d.start},
		{"Site A makes a volume with a replica at each site, and both sites' orchestrators enable its replication", d.replicate},
		{"It is used at site A", d.useAtA},
		{"Site A loses its power in the middle of a burst of writes", d.losePower},
		{"Site B is promoted, without force, and uses the volume", d.failOver},
		{"Everything that was acknowledged at site A is there", d.verifyAtB},
		{"Site A returns. Its orchestrator still wants what it had", d.returnA},
		{"Site A accepts that it lost, and is brought up to date", d.resync},
		{"The volume moves back, in order", d.moveBack},
		{"What the log remembers of the volume's role", d.history},
		{"Both replicas, read below the filesystem, and the audit", d.audit},
		{"Everything is taken down again", d.tearDown},
	} {
		if err := d.runStep(ctx, st.title, st.run); err != nil {
			return fmt.Errorf("%s: %w", st.title, err)
		}
	}
	d.printf("")
	d.printf("Done in %s.", elapsed(d.started))
	return nil
}

func (d *demo) runStep(ctx context.Context, title string, run func(context.Context) error) error {
	d.stepNumber++
	d.printf("")
	d.printf("%d. %s", d.stepNumber, title)
	begin := time.Now()
	if err := run(ctx); err != nil {
		return err
	}
	d.printf("   (%s)", elapsed(begin))
	return nil
}

// printf prints a line, printStepf a line of a step.
func (d *demo) printf(format string, args ...any) { _, _ = fmt.Fprintf(d.out, format+"\n", args...) }

func (d *demo) printStepf(format string, args ...any) { d.printf("   "+format, args...) }

func elapsed(t time.Time) time.Duration { return time.Since(t).Round(time.Millisecond) }
