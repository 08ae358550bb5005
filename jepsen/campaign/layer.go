package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/catalog"
)

// layer is how one layer's test program is run.
type layer struct {
	name    catalog.Layer
	program string // its package
	share   int    // of the time, against the others
	// seeds: a run is so many seeds from the first; else it is one seed for a time.
	seeds  bool
	test   string
	first  string // the flag of the first seed, or of the one
	length string // the flag of how many seeds, or of the time
	single string // the flag that repeats one seed
	env    []string
}

// layers are those that a campaign can run.
var layers = []layer{
	{name: catalog.Sim, program: "./jepsen/sim", share: 3, seeds: true, test: "^TestSeeds$",
		first: "-sim.first", length: "-sim.seeds", single: "-sim.seed"},
	{name: catalog.RaftSim, program: "./jepsen/raftsim", share: 3, seeds: true, test: "^TestSchedules$",
		first: "-raftsim.first", length: "-raftsim.schedules", single: "-raftsim.seed"},
	{name: catalog.Cluster, program: "./jepsen/cluster", share: 4, test: "^TestFaults$",
		first: "-faults.seed", length: "-faults.duration", single: "-faults.seed"},
	{name: catalog.Lab, program: "./jepsen/lab/scenarios", share: 4, test: "^TestRandomFaults$",
		first: "-random.seed", length: "-random.duration", single: "-random.seed", env: []string{"HOLDFAST_REQUIRE_LAB=1"}},
}

func layerOf(name string) (*layer, error) {
	for i := range layers {
		if string(layers[i].name) == name {
			return &layers[i], nil
		}
	}
	return nil, fmt.Errorf("there is no layer %q: sim, raftsim, cluster and lab are", name)
}

// binary is where the layer's program is.
func (l *layer) binary(dir string) (string, error) {
	return filepath.Abs(filepath.Join(dir, "bin", string(l.name)+".test"))
}

// build builds the layer's program.
func (l *layer) build(ctx context.Context, dir string) error {
	path, err := l.binary(dir)
	if err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-o", path, l.program).CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", l.program, err, out)
	}
	return nil
}

// args are those of a run: so many seeds from the first, or the first for so long.
func (l *layer) args(first, seeds int, length time.Duration) []string {
	args := []string{"-test.run=" + l.test, "-test.timeout=0", "-test.v", l.first, strconv.Itoa(first), l.length}
	if l.seeds {
		return append(args, strconv.Itoa(seeds))
	}
	return append(args, length.String())
}

// again are the arguments that repeat one seed.
func (l *layer) again(seed int) []string {
	return []string{"-test.run=" + l.test, "-test.timeout=0", "-test.v", l.single, strconv.Itoa(seed)}
}

// command is a run of the layer's program in its package, with its reports in the campaign's directory.
func (l *layer) command(ctx context.Context, dir string, args []string) (*exec.Cmd, error) {
	path, err := l.binary(dir)
	if err != nil {
		return nil, err
	}
	reports, err := filepath.Abs(filepath.Join(dir, "reports"))
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = l.program
	cmd.Env = append(append(os.Environ(), "HOLDFAST_REPORTS="+reports), l.env...)
	// It ends what it started, guests and networks; killed it could not.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	return cmd, nil
}
