package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/holdfast-storage/holdfast/cmd/daemon"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/csi/identity"
	csinode "github.com/holdfast-storage/holdfast/csi/node"
	"github.com/holdfast-storage/holdfast/csi/server"
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/executor/fencepeer"
	"github.com/holdfast-storage/holdfast/executor/session"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/kube/kubelet"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// stopTimeout bounds the work in progress when the process stops.
const stopTimeout = 10 * time.Second

// node is one running daemon.
type node struct {
	*options
	log        *slog.Logger
	creds      *pki.Credentials
	registry   *prometheus.Registry
	components *components
	client     *session.Client
	executor   *agent.Agent

	fencePeer   *fencepeer.Server // nil on a host that holds no replicas of replicated volumes
	csiListener net.Listener
	csi         *grpc.Server
	health      *daemon.Health

	registration *kubelet.Registration // nil where no kubelet is told of this node
}

// serve runs the daemon until ctx ends.
func serve(ctx context.Context, o *options, stderr io.Writer) error {
	unix.Umask(0o077)
	logger, err := o.Log.Logger(stderr)
	if err != nil {
		return exit.Wrap(exit.Usage, err)
	}
	n := &node{options: o, log: logger, registry: daemon.Registry(daemon.Version())}
	if err := n.enroll(ctx); err != nil {
		return err
	}
	if err := n.loadIdentity(); err != nil {
		return err
	}
	if err := n.open(ctx); err != nil {
		return errors.Join(err, n.close())
	}
	logger.Info("the node runs", "id", n.id, "host", string(n.components.host.ID), "pools", n.components.poolNames(), "csi", o.CSIEndpoint, "version", daemon.Version())
	return errors.Join(n.serve(ctx), n.close())
}

// enroll gets this host its certificate where it has a token, and takes up what the cluster said of itself.
func (n *node) enroll(ctx context.Context) error {
	if n.enrollFlags.Given() {
		n.join.FilesInDir(&n.Files)
		if err := daemon.FirstCertificate(ctx, n.enrollFlags.Node(n.id, n.Files), n.log); err != nil {
			return err
		}
	}
	n.join.ChooseFiles(&n.Files)
	joined, err := n.join.Enroll(ctx, n.Files, pki.Node, n.log)
	if err != nil {
		return err
	}
	if len(n.endpoints) == 0 {
		n.endpoints = joined.APIAddresses
	}
	if len(n.endpoints) == 0 {
		return exit.Usagef("--endpoints is not set, and the cluster named none when this host joined: name the API addresses of the controllers")
	}
	return nil
}

// loadIdentity loads the certificate, which names this host.
func (n *node) loadIdentity() (err error) {
	if n.creds, err = daemon.LoadCredentials(n.Files, pki.Node); err != nil {
		return err
	}
	certified := n.creds.Identity().Name
	if n.id != "" && n.id != certified {
		return exit.Usagef("start node %s: its certificate %s is for %s; issue one for it, or start it as --node-id %s", n.id, n.Files.Cert, certified, certified)
	}
	n.id = certified
	n.log = n.log.With("node", n.id)
	return nil
}

// open opens all that may fail, the cheapest first.
func (n *node) open(ctx context.Context) (err error) {
	if err := n.rootPoolDir(); err != nil {
		return err
	}
	if n.components, err = openComponents(n.options, n.log); err != nil {
		return err
	}
	if err := n.openExecutor(); err != nil {
		return err
	}
	metrics, err := daemon.Listen(ctx, "metrics and health", "metrics-listen", n.MetricsListen)
	if err != nil {
		return err
	}
	if err := daemon.WatchCertificate(ctx, n.creds, n.registry, n.log); err != nil {
		return errors.Join(err, metrics.Close())
	}
	if err := n.openRegistration(); err != nil {
		return errors.Join(err, metrics.Close())
	}
	n.health = daemon.ServeHealth(metrics, n.registry, n.readyz, n.Profile, n.log, n.rebootGate())
	if err := n.listenFencePeer(); err != nil {
		return err
	}
	if n.csiListener, err = server.Listen(n.CSIEndpoint); err != nil {
		return exit.Wrap(exit.Unavailable, err)
	}
	return n.openCSI()
}

// openExecutor creates the executor and its session, which refer to each other.
func (n *node) openExecutor() (err error) {
	labels, err := n.topology()
	if err != nil {
		return err
	}
	n.client, err = session.NewClient(session.ClientConfig{
		Endpoints: n.endpoints, Credentials: n.creds, Logger: n.log, RevocationsFile: filepath.Join(n.dataDir, "revocations.json"),
		Register:   func() *registration { return n.executor.Register() },
		ActedEpoch: func() (fsm.Epoch, []byte) { return n.executor.ActedEpoch() },
		Handle:     func(u executor.Update) { n.executor.Update(u) },
		Telemetry:  func() []executor.PoolFacts { return n.executor.PoolFacts(context.Background()) },
		Inventory:  func(ctx context.Context) (executor.Inventory, error) { return n.executor.Inventory(ctx) },
		Held:       func(ctx context.Context) (executor.Inventory, error) { return n.executor.Held(ctx) },
		Candidates: func(ctx context.Context) (executor.Inventory, error) { return n.executor.Candidates(ctx) },
		HostFacts:  n.hostFacts(),
		Map: func(ctx context.Context, base, target fsm.SnapshotID, from int64, limit int) (executor.MapPage, error) {
			return n.executor.Map(ctx, base, target, from, limit)
		},
		VolumeFacts: func(ctx context.Context, id fsm.VolumeID) (executor.VolumeFacts, error) {
			return n.executor.VolumeFacts(ctx, id)
		},
		ReplicaNow: func(ctx context.Context, id fsm.VolumeID) (fsm.ReplicaObservation, error) {
			return n.executor.ReplicaNow(ctx, id)
		},
	})
	if err != nil {
		return exit.Wrap(exit.Usage, err)
	}
	if err := n.exportSession(); err != nil {
		return err
	}
	freezes, err := newMeteredFreezer(n.components.freezer, n.registry)
	if err != nil {
		return err
	}
	n.components.openThrottle(n.ioCgroup, n.log)
	config := agent.Config{
		Node: fsm.NodeID(n.id), Host: n.components.host, Pools: n.components.backends(), Mounter: n.components.mounter,
		Freezer: freezes, FilesystemTools: n.components.mounter, Throttle: n.components.throttle, Encryptor: n.components.encryptor, MaxFreeze: n.freezeMax, HealthInterval: n.healthInterval,
		Proposer: n.client, Logger: n.log, Metrics: n.registry,
		Labels: labels, Site: n.site, Addresses: n.addressTexts, MaxVolumes: n.maxVolumes, Version: daemon.Version(), FeatureLevel: fsm.MaxFeatureLevel,
		OvercommitPercents: n.overcommitPercents(), MinFree: int64(n.minFree),
	}
	if n.faultPoints {
		config.Faults = agent.FaultsFromEnv(n.dataDir)
	}
	n.configureReplication(&config)
	n.executor, err = agent.New(config)
	return exit.Wrap(exit.Refused, err)
}

// openCSI creates the server of the CSI socket: Identity and Node, never Controller (S20).
func (n *node) openCSI() (err error) {
	if n.csi, err = server.New(server.Config{Logger: n.log, Metrics: n.registry, Interceptors: n.token.Interceptors()}); err != nil {
		return err
	}
	off, err := n.disabled.Disabled()
	if err != nil {
		return err
	}
	who, err := identity.New(identity.Config{
		Version: daemon.Version(), Ready: n.ready, Disabled: off.Services, NoExpansion: off.HasExpansion(),
	})
	if err != nil {
		return err
	}
	labels, err := n.topology()
	if err != nil {
		return err
	}
	service, err := csinode.New(n.executor, csinode.Config{ID: fsm.NodeID(n.id), Labels: labels, MaxVolumes: n.maxVolumes, MountGroup: n.mountGroup, Disabled: off.Node})
	if err != nil {
		return exit.Wrap(exit.Usage, err)
	}
	csispec.RegisterIdentityServer(n.csi, who)
	csispec.RegisterNodeServer(n.csi, service)
	n.openAddons(who, off)
	return nil
}

// serve serves until ctx ends or a component fails. It stops CSI calls first, then the
// background work, then the session that carries the reports of both.
func (n *node) serve(ctx context.Context) error {
	registered, unregister := context.WithCancel(ctx)
	defer unregister()
	connected, disconnect := context.WithCancel(context.WithoutCancel(ctx))
	defer disconnect()
	var group errgroup.Group
	n.executor.Start()
	group.Go(func() error { return n.client.Run(connected) })
	group.Go(func() error { n.creds.Watch(connected); return nil })
	if n.enrollFlags.Given() {
		group.Go(func() error {
			daemon.KeepCertificate(connected, n.enrollFlags.Node(n.id, n.Files), n.log)
			return nil
		})
	}
	group.Go(func() error { return n.serveFencePeer(connected) })
	group.Go(func() error { n.watchPools(connected); return nil })
	group.Go(func() error { n.serveRegistration(registered); return nil })
	err := server.Run(ctx, n.csi, n.csiListener)
	unregister()
	if err != nil {
		err = fmt.Errorf("serve CSI: %w", err)
	}
	n.log.Info("stopping: staged volumes stay mounted")
	stopping, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	stopped := n.executor.Shutdown(stopping)
	disconnect()
	return errors.Join(err, stopped, group.Wait())
}

// close ends what was opened; it may be called at any stage.
func (n *node) close() error {
	if n.csiListener != nil {
		_ = n.csiListener.Close() // the server closes it too
	}
	if n.health != nil {
		n.health.Close()
	}
	var errs []error
	if n.client != nil {
		errs = append(errs, n.client.Close())
	}
	if n.components != nil {
		errs = append(errs, n.components.close())
	}
	return errors.Join(errs...)
}

// rootPoolDir makes --pool-dir an absolute path. When it is empty there is no pool
// of files.
func (n *node) rootPoolDir() (err error) {
	if n.poolDir == "" {
		return nil
	}
	if n.poolDir, err = filepath.Abs(n.poolDir); err != nil {
		return exit.Wrap(exit.Usage, err)
	}
	return nil
}
