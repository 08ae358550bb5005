package cli

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/spf13/pflag"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/holdfast-storage/holdfast/admin/certify"
	runner "github.com/holdfast-storage/holdfast/cmd/certify"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/cmd/node"
	"github.com/holdfast-storage/holdfast/kube/scratch"
)

// podPatience is how long a pod that writes or reads may take to run, to end or to go.
const podPatience = 4 * time.Minute

// writeOptions are the flags of `certify` about pods that write on hosts.
type writeOptions struct {
	on               bool
	class, namespace string
	size             int64
	hosts            int
	plugins          bool // are restarted meanwhile
}

func (o *writeOptions) addFlags(flags *pflag.FlagSet) {
	o.size = 512 << 20
	flags.BoolVar(&o.on, "write", false, "also have pods on hosts write blocks all the while, and read back afterwards what was acknowledged; with --kube")
	flags.StringVar(&o.class, "write-class", "", "storage `class` of the claims that are written to; by default the only one that is fit, or the default one; with --write")
	flags.StringVar(&o.namespace, "write-namespace", "", "`namespace` of these pods and claims; by default that of the controllers; with --write")
	flags.Var(node.BytesFlag(&o.size), "write-size", "of each of these claims, in `bytes`; with --write")
	flags.BoolVar(&o.plugins, "restart-node-plugins", false, "also restart the node plugin of each host that is written on, one after another, by evicting its pod; with --write")
	flags.IntVar(&o.hosts, "write-hosts", 3, "`number` of hosts that are written on, at most; with --write")
}

// check refuses what no cluster can follow.
func (o *writeOptions) check(flags *pflag.FlagSet, kube bool) error {
	if !o.on {
		for _, name := range []string{"write-class", "write-namespace", "write-size", "write-hosts", "restart-node-plugins"} {
			if onCommandLine(flags, name) {
				return exit.Usagef("--%s does nothing without --write", name)
			}
		}
		return nil
	}
	switch {
	case !kube:
		return exit.Usagef("--write makes pods: it needs --kube")
	case o.hosts < 1 || o.hosts > certify.MaxWriteHosts:
		return exit.Usagef("--write-hosts %d: choose 1 to %d", o.hosts, certify.MaxWriteHosts)
	case o.size < certify.MinWriteSize || o.size > certify.MaxSize:
		return exit.Usagef("--write-size %d: choose %d to %d bytes", o.size, certify.MinWriteSize, int64(certify.MaxSize))
	}
	return nil
}

// addWrites adds them to the plan, and who writes. Nothing is made.
func (o *certifyOptions) addWrites(ctx context.Context, r *runner.Runner, facts *certify.Facts, plan *certify.Plan) error {
	pods, class, err := o.kube.scratchPods(ctx, o.write)
	if err != nil {
		return err
	}
	pods.Cluster, pods.Progress = facts.Status.GetClusterId(), r.Progress
	w := certify.WritePlan{Namespace: pods.Namespace, Class: class.Name, Replicated: scratch.Replicated(class), Image: pods.Program.Image, SizeBytes: o.write.size}
	if w.Leftovers, err = o.leftPods(ctx, pods); err != nil {
		return err
	}
	var failed error
	err = plan.Write(w, o.write.hosts, func(host string) string {
		why, err := pods.NotOn(ctx, host)
		failed = errors.Join(failed, err)
		if why == "" {
			why = plan.NotToWriteOn(facts, host, &w)
		}
		return why
	})
	if failed != nil {
		return exit.Refusedf("write on hosts: %w", failed)
	}
	if err != nil {
		return exit.Refusedf("write on hosts: %w", err)
	}
	pods.Plan, r.Pods = plan.Writes, pods
	if err := pods.Check(ctx); err != nil {
		return exit.Refusedf("write on hosts: %w", err)
	}
	if o.write.plugins {
		return o.addPluginRestarts(ctx, r, plan)
	}
	return nil
}

// addPluginRestarts adds them to the plan, and how they are done.
func (o *certifyOptions) addPluginRestarts(ctx context.Context, r *runner.Runner, plan *certify.Plan) error {
	pods, err := o.kube.restarter(ctx)
	if err != nil {
		return err
	}
	for _, host := range plan.Writes.Hosts {
		pod, err := pods.pluginOn(ctx, host)
		if err != nil {
			return exit.Unavailablef("restart the node plugin of %s: %w", host, err)
		}
		if pod == nil {
			return exit.Usagef("--restart-node-plugins evicts pods, and host %s has none of a node plugin", host)
		}
	}
	plan.RestartPlugins()
	r.RestartPlugin = pods.restartPlugin
	return nil
}

// leftPods are what killed runs left; what may be another's ends the command.
func (o *certifyOptions) leftPods(ctx context.Context, pods *scratch.Pods) ([]string, error) {
	before := time.Now().Add(-o.olderThan)
	if o.olderThan == 0 {
		before = time.Unix(math.MaxInt32, 0) // whatever the clocks say
	}
	left, others, err := pods.Leftovers(ctx, before)
	switch {
	case err != nil:
		return nil, exit.Refusedf("look for what killed runs left: %w", err)
	case len(others) > 0:
		return nil, exit.Refusedf("nothing was done: %s", strings.Join(others, "; "))
	}
	return left, nil
}

// scratchPods are pods of the controllers' image and of a class.
func (k *kubeConnection) scratchPods(ctx context.Context, o writeOptions) (*scratch.Pods, *storagev1.StorageClass, error) {
	api, _, err := k.source.Connect()
	if err != nil {
		return nil, nil, exit.Wrap(exit.Usage, err)
	}
	controllers, err := k.controllers(ctx, api)
	if err != nil {
		return nil, nil, err
	}
	program, ok := scratch.ProgramOf(&controllers[0])
	if !ok {
		return nil, nil, exit.Usagef("write on hosts: pod %s/%s is none of the chart's, whose image the writers run", controllers[0].Namespace, controllers[0].Name)
	}
	var class *storagev1.StorageClass
	if o.class != "" {
		class, err = scratch.ClassNamed(ctx, api, o.class)
	} else {
		class, err = scratch.ChooseClass(ctx, api)
	}
	if err != nil {
		return nil, nil, exit.Usagef("write on hosts: %w: see --write-class", err)
	}
	pods := &scratch.Pods{API: api, Namespace: o.namespace, Program: program, Pause: restartPause, Patience: podPatience}
	if pods.Namespace == "" {
		pods.Namespace = controllers[0].Namespace
	}
	return pods, class, nil
}
