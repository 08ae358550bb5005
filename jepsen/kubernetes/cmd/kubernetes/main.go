// Command kubernetes is the proof of Holdfast on a real Kubernetes: see the package kubernetes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/machine"
)

const usage = `usage: kubernetes VERB [FLAGS] [ARGUMENTS]

  all                up, stories and down, whatever became of the stories
  up                 start a cluster, and leave it running
  stories            tell the stories on the cluster that runs, and write their table
  shell [PROGRAM]    run a program that may reach the cluster, with KUBECONFIG set
  down               stop the cluster and remove all of it, also what a killed process left

Flags of all verbs:
`

func main() {
	machine.Main()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "kubernetes:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	o := options{}
	flags := o.flags()
	if len(args) == 0 {
		flags.Usage()
		return errors.New("no verb is given")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	// Machines have a working directory of their own.
	for _, path := range []*string{&o.dir, &o.programs, &o.image, &o.chart, &o.holdfast} {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = absolute
	}
	switch args[0] {
	case "all":
		return o.all(ctx)
	case "up":
		return o.up(ctx)
	case "down":
		return o.down()
	case "stories":
		return o.stories(ctx)
	case "shell":
		return o.shell(ctx, flags.Args())
	}
	flags.Usage()
	return fmt.Errorf("there is no verb %q", args[0])
}

// options are the flags.
type options struct {
	dir, programs, version, image     string
	only, chart, crds, helm, holdfast string
	suiteFocus                        string
	nodes, guests, minutes            int
	pool                              int64
	onHosts, thinPools                bool
}

func (o *options) flags() *flag.FlagSet {
	f := flag.NewFlagSet("kubernetes", flag.ContinueOnError)
	f.StringVar(&o.dir, "dir", ".cache/kubernetes", "folder of the cluster and of the reports")
	f.StringVar(&o.programs, "programs", ".cache/kubernetes/bin", "folder of the programs that binaries.sh built, and of pause")
	f.StringVar(&o.version, "version", "v1.37.2", "version of Kubernetes, of which -programs has the programs")
	f.StringVar(&o.image, "image", ".cache/image/holdfast.tar", "archive with Holdfast's image")
	f.StringVar(&o.only, "only", ".", "regular expression of the stories that are told")
	f.StringVar(&o.chart, "chart", "deploy/chart", "folder of the chart")
	f.StringVar(&o.crds, "crds", "", "folder with the CRDs of snapshots; empty: the cluster has none")
	f.StringVar(&o.helm, "helm", "v3.22.0", "version of the helm that installs the chart")
	f.StringVar(&o.holdfast, "holdfast", "bin/holdfast", "the program, for what is done outside of the cluster")
	f.BoolVar(&o.thinPools, "thin-pools", false, "the pools are thin pools of LVM, on the nodes with kernels of their own alone; needs -guests")
	f.BoolVar(&o.onHosts, "on-hosts", false, "install the driver without the chart, by programs on the hosts")
	f.StringVar(&o.suiteFocus, "suite-focus", "", "regular expression of the tests of Kubernetes' own storage suite that are run; empty: all of the driver")
	f.IntVar(&o.minutes, "minutes", 10, "how long the stories of random faults go on")
	f.IntVar(&o.nodes, "nodes", 3, "how many nodes the cluster has")
	f.IntVar(&o.guests, "guests", 0, "how many more nodes it has, with kernels of their own, for volumes that are replicated")
	f.Int64Var(&o.pool, "pool", 20<<30, "bytes of each node's disk for volumes")
	f.Usage = func() {
		fmt.Fprint(os.Stderr, usage)
		f.PrintDefaults()
	}
	return f
}
