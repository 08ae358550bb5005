package kube

import (
	"context"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/cmd/config"
	"github.com/holdfast-storage/holdfast/cmd/daemon"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/kube/client"
	"github.com/holdfast-storage/holdfast/kube/loop"
	"github.com/holdfast-storage/holdfast/kube/plan"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// loopOptions are the flags of `holdfast kube`.
type loopOptions struct {
	log                           daemon.LogFlags
	source                        client.Source
	files                         pki.Files
	endpoints                     []string
	namespace, identity, selector string
	metrics                       string
	guard                         plan.Guard
	snapshotMetadata              plan.SnapshotMetadata
	often, seldom, silence        time.Duration
	duration, deadline, retry     time.Duration
}

// requestsPerSecond and requestBurst bound what one loop asks of the API server.
const requestsPerSecond, requestBurst = 20, 60

// minKubeletSilence leaves a kubelet that renews its Lease every 10 s, give or take, a moment for doing so.
const minKubeletSilence = 12 * time.Second

// LoopCommand is `holdfast kube`.
func LoopCommand() *cobra.Command {
	o := &loopOptions{}
	cmd := &cobra.Command{Use: "kube", Short: "Keep Kubernetes at what the log says",
		Long: "Runs beside each controller; a Lease elects the one that acts. It fails a node over that is gone, under the log's proof; brings\n" +
			"the node affinity of persistent volumes to where their replicas are; keeps a node from being drained that has the last good\n" +
			"copy of a volume; and says in Events on claims, pods and nodes what is wrong and what to do. Storage goes on without it.",
		Args: noArguments, RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), cmd.ErrOrStderr()) }}
	flags := cmd.Flags()
	config.AddFlag(flags)
	o.log.Add(flags)
	daemon.AddTLSFlags(flags, &o.files)
	host, _ := os.Hostname() // a pod's is its name
	flags.StringSliceVar(&o.endpoints, "endpoints", nil, "API `addresses` of the controllers, host:port; the first that answers is used")
	flags.StringVar(&o.source.Kubeconfig, "kubeconfig", "", "`file` that says which API server; the pod's service account by default")
	flags.StringVar(&o.source.Context, "context", "", "`context` of the kubeconfig")
	flags.StringVarP(&o.namespace, "namespace", "n", "", "`namespace` of the controllers; the pod's by default")
	flags.StringVar(&o.identity, "identity", host, "`name` of this loop among those that are elected; the pod's")
	flags.StringVar(&o.selector, "controller-selector", "app.kubernetes.io/name=holdfast,app.kubernetes.io/component=controller", "`labels` of the controllers' pods")
	flags.StringVar(&o.metrics, "metrics-listen", "127.0.0.1:9804", "`address` of the plain HTTP listener with /metrics, /healthz and /readyz; keep it on loopback")
	flags.StringVar(&o.guard.Image, "guard-image", "", "`image` of the pods that keep nodes from being drained, one on each node of Holdfast, this program's; without it, none are made")
	flags.StringSliceVar(&o.guard.PullSecrets, "guard-pull-secrets", nil, "`names` of the secrets to pull it with")
	flags.StringVar(&o.guard.PriorityClass, "guard-priority-class", "system-node-critical", "priority `class` of these pods")
	flags.StringVar(&o.snapshotMetadata.Address, "snapshot-metadata-address", "", "`address` of the service of changed blocks, host:port, for a SnapshotMetadataService that is kept up to date; without it, none is")
	flags.StringVar(&o.snapshotMetadata.Audience, "snapshot-metadata-audience", "", "`audience` of the tokens that its clients send")
	flags.StringVar(&o.snapshotMetadata.CAFile, "snapshot-metadata-ca", "", "`file` with the CA certificate of that address, in PEM; it is read again and again")
	flags.DurationVar(&o.often, "node-interval", 3*time.Second, "how often nodes are looked at")
	flags.DurationVar(&o.seldom, "interval", 10*time.Second, "how often everything is looked at")
	flags.DurationVar(&o.silence, "kubelet-silence", 15*time.Second, "how long a kubelet has not renewed its Lease when a failover of its node may begin, under the log's proof; with 0 only when Kubernetes has the node as unknown")
	flags.DurationVar(&o.duration, "lease-duration", 8*time.Second, "how long a leader that is not heard of leads")
	flags.DurationVar(&o.deadline, "lease-renew-deadline", 6*time.Second, "after which time without a renewal the leader gives up")
	flags.DurationVar(&o.retry, "lease-retry-period", time.Second, "how often the leader renews, and the others try")
	cmd.AddCommand(guardCommand())
	return cmd
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return exit.Usagef("unexpected argument %q; see `%s --help`", args[0], cmd.CommandPath())
	}
	return nil
}

func (o *loopOptions) check() error {
	switch {
	case len(o.endpoints) == 0:
		return exit.Usagef("choose the cluster: set --endpoints to the controllers' API addresses")
	case o.identity == "":
		return exit.Usagef("--identity may not be empty: two loops of one identity would both lead")
	case o.silence != 0 && o.silence < minKubeletSilence:
		return exit.Usagef("--kubelet-silence %s is below %s: kubelets renew their Leases every 10 s; 0 leaves it to Kubernetes", o.silence, minKubeletSilence)
	case !allOrNone(o.snapshotMetadata.Address, o.snapshotMetadata.Audience, o.snapshotMetadata.CAFile):
		return exit.Usagef("--snapshot-metadata-address, --snapshot-metadata-audience and --snapshot-metadata-ca: give all of them, or none")
	case o.often <= 0 || o.seldom <= 0:
		return exit.Usagef("--node-interval and --interval must be above 0")
	}
	return nil
}

func allOrNone(given ...string) bool {
	missing := slices.Contains(given, "")
	return !missing || !slices.ContainsFunc(given, func(s string) bool { return s != "" })
}

func (o *loopOptions) run(ctx context.Context, stderr io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	logger, err := o.log.Logger(stderr)
	if err != nil {
		return exit.Wrap(exit.Usage, err)
	}
	client.LogTo(logger)
	creds, err := pki.Load(o.files)
	if err != nil {
		return exit.Usagef("load the certificate: %w", err)
	}
	kube, objects, namespace, err := o.connect()
	if err != nil {
		return exit.Wrap(exit.Unavailable, err)
	}
	if o.namespace == "" {
		o.namespace = namespace
	}
	o.guard.Namespace = o.namespace
	registry := daemon.Registry(daemon.Version())
	if err := daemon.WatchCertificate(ctx, creds, registry, logger); err != nil {
		return err
	}
	listener, err := daemon.Listen(ctx, "metrics and health", "metrics-listen", o.metrics)
	if err != nil {
		return err
	}
	health := daemon.ServeHealth(listener, registry, func() error { return nil }, false, logger)
	defer health.Close()
	return o.lead(ctx, kube, objects, admin.NewClient(o.endpoints, creds.Client(pki.Controller)), loop.NewMetrics(registry), logger)
}

// connect makes a client of the API server, and one for objects whose CRDs are the cluster's. Both share one bound.
func (o *loopOptions) connect() (kubernetes.Interface, dynamic.Interface, string, error) {
	rest, namespace, err := o.source.Config()
	if err != nil {
		return nil, nil, "", err
	}
	rest.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(requestsPerSecond, requestBurst)
	kube, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return nil, nil, "", err
	}
	objects, err := dynamic.NewForConfig(rest)
	return kube, objects, namespace, err
}

// lead takes part in the election until ctx ends.
func (o *loopOptions) lead(ctx context.Context, kube kubernetes.Interface, objects dynamic.Interface, controllers *admin.Client, metrics *loop.Metrics, logger *slog.Logger) error {
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: kube.EventsV1()})
	defer broadcaster.Shutdown()
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return exit.Wrap(exit.Unavailable, err)
	}
	kubelets := &loop.Kubelets{Kube: kube, Logger: logger, Silence: o.silence}
	watch, stopWatch := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stopWatch()
	watching.Go(func() { kubelets.Watch(watch) })
	l := loop.New(loop.Config{
		Kube: kube, Log: loop.Controllers{Client: controllers}, Metrics: metrics, Logger: logger, Guard: o.guard, Kubelets: kubelets,
		Notifier:  loop.NewNotifier(broadcaster.NewRecorder(scheme.Scheme, "holdfast-kube"), metrics),
		Namespace: o.namespace, ControllerSelector: o.selector, Often: o.often, Seldom: o.seldom,
		SnapshotMetadata: o.snapshotMetadata, Dynamic: objects,
	})
	election := loop.Election{
		Kube: kube, Namespace: o.namespace, Identity: o.identity, Logger: logger, Metrics: metrics, Duration: o.duration, Deadline: o.deadline, Retry: o.retry,
	}
	var one sync.Mutex // an earlier leadership of this process may still be at its last step
	return exit.Wrap(exit.Usage, election.Lead(ctx, func(ctx context.Context) {
		one.Lock()
		defer one.Unlock()
		l.Run(ctx)
	}))
}

// guardCommand is what the pods run that keep a node from being drained.
func guardCommand() *cobra.Command {
	return &cobra.Command{Use: "guard", Short: "Wait, as the pod that keeps a node from being drained", Hidden: true, Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			<-cmd.Context().Done()
			return nil
		}}
}
