// Package kube has the commands that run beside the daemons in Kubernetes. What they do is below kube.
package kube

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/cmd/config"
	"github.com/holdfast-storage/holdfast/cmd/daemon"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/kube/authority"
	"github.com/holdfast-storage/holdfast/kube/bootstrap"
	"github.com/holdfast-storage/holdfast/kube/client"
	"github.com/holdfast-storage/holdfast/kube/wait"
)

// longestPause is that between two attempts of what may fail for a while.
const longestPause = 10 * time.Second

// initOptions are the flags of kube-init.
type initOptions struct {
	log                     daemon.LogFlags
	source                  client.Source
	namespace, dir, record  string
	secret, bundle, cluster string
	caDir                   string
}

// InitCommand is `holdfast kube-init`.
func InitCommand() *cobra.Command {
	o := &initOptions{}
	cmd := &cobra.Command{Use: "kube-init", Short: "Prepare a controller in a pod: who founds the cluster, and its CA",
		Long: "Runs before each controller, as an init container. It decides, by a ConfigMap that is made once, whether this controller's\n" +
			"data folder founds the cluster, and writes that into the folder, for `holdfast controller --bootstrap-from`. A folder that\n" +
			"holds a cluster's log is left as it is. With --ca-secret it also makes the cluster's CA, once, and gives it to this controller.\n" +
			"It waits for the API server, and says so; it may be repeated after any interruption.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Usagef("unexpected argument %q; see `holdfast kube-init --help`", args[0])
			}
			if (o.secret == "") != (o.caDir == "") {
				return exit.Usagef("--ca-secret and --ca-dir: give both, or neither")
			}
			if o.dir == "" || o.record == "" || o.bundle == "" {
				return exit.Usagef("--data-dir, --cluster-configmap and --ca-bundle may not be empty")
			}
			logger, err := o.log.Logger(cmd.ErrOrStderr())
			if err != nil {
				return exit.Wrap(exit.Usage, err)
			}
			client.LogTo(logger)
			return o.run(cmd.Context(), wait.Loop{Log: logger, Most: longestPause})
		}}
	flags := cmd.Flags()
	config.AddFlag(flags)
	o.log.Add(flags)
	flags.StringVar(&o.source.Kubeconfig, "kubeconfig", "", "`file` that says which API server; the pod's service account by default")
	flags.StringVarP(&o.namespace, "namespace", "n", "", "`namespace` of this installation; the pod's by default")
	flags.StringVar(&o.dir, "data-dir", "/var/lib/holdfast/controller", "`folder` of the controller's log")
	flags.StringVar(&o.record, "cluster-configmap", "holdfast-cluster", "`name` of the ConfigMap that says which data folder founded the cluster")
	flags.StringVar(&o.secret, "ca-secret", "", "`name` of the Secret with the cluster's CA and its key, which is made with a new CA where it is missing; empty: there is none")
	flags.StringVar(&o.caDir, "ca-dir", "", "`folder` that gets this CA, for the controller's --ca-dir; in memory, and of this controller alone")
	flags.StringVar(&o.bundle, "ca-bundle", "holdfast-ca-bundle", "`name` of the ConfigMap that gets the CA's certificates, by which nodes know controllers")
	flags.StringVar(&o.cluster, "cluster", "holdfast", "`name` of the cluster, in every certificate, where a CA is made")
	return cmd
}

func (o *initOptions) run(ctx context.Context, loop wait.Loop) error {
	api, namespace, err := o.source.Connect()
	if err != nil {
		return exit.Wrap(exit.Usage, err)
	}
	if o.namespace != "" {
		namespace = o.namespace
	}
	verdict, err := bootstrap.Decide(ctx, bootstrap.Config{Client: api, Namespace: namespace, Name: o.record, Dir: o.dir, Wait: loop})
	if err != nil {
		return endedBy(ctx, err)
	}
	if o.secret != "" {
		err := authority.Ensure(ctx, authority.Config{Client: api, Namespace: namespace, Secret: o.secret, Bundle: o.bundle, Cluster: o.cluster, Dir: o.caDir, Wait: loop})
		if err != nil {
			return endedBy(ctx, err)
		}
	}
	loop.Log.Info("the controller may start", "bootstrap", verdict.Bootstrap, "file", bootstrap.File(o.dir))
	return nil
}

// endedBy tells a wait that was ended from a refusal.
func endedBy(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return exit.Wrap(exit.Unavailable, err)
	}
	return exit.Wrap(exit.Refused, err)
}
