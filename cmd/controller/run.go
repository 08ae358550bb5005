package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/holdfast-storage/holdfast/cmd/daemon"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/csi/server"
	"github.com/holdfast-storage/holdfast/executor/policy"
	"github.com/holdfast-storage/holdfast/executor/session"
	"github.com/holdfast-storage/holdfast/raftnode"
	"github.com/holdfast-storage/holdfast/raftnode/backup/schedule"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// controller is one running daemon.
type controller struct {
	*options
	log      *slog.Logger
	creds    *pki.Credentials
	registry *prometheus.Registry
	cluster  *cluster
	sessions *session.Server
	members  *session.Members
	monitor  *policy.Monitor
	member   *raftnode.Member
	backups  *schedule.Scheduler // nil without --backup-to

	raftListener, apiListener, csiListener net.Listener
	api, csi                               *grpc.Server
	enrollment                             *enrollment // nil without --enroll-listen
	health                                 *daemon.Health
}

// run runs the daemon from its start to its end.
func run(ctx context.Context, o *options, stderr io.Writer) error {
	unix.Umask(0o077)
	relaxGC()
	c, err := prepare(ctx, o, stderr)
	if err != nil {
		return err
	}
	c.raisePriority()
	if err := c.open(ctx); err != nil {
		return c.finish(c.awaitStop(ctx, err))
	}
	c.log.Info("the controller runs", "name", c.name, "raft", c.raftListener.Addr().String(),
		"api", c.apiListener.Addr().String(), "csi", o.CSIEndpoint, "version", daemon.Version())
	return c.finish(c.serve(ctx))
}

// relaxGC lets the heap grow to four times what is in use before it is
// collected, unless GOGC says otherwise: a state of 100,000 volumes takes about
// 100 MB, and collecting it is what a commit would wait for.
func relaxGC() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(300)
	}
}

// raisePriority lets a leader send its heartbeats in time on a busy machine. Without the privilege the
// controller runs at normal priority.
func (c *controller) raisePriority() {
	if c.nice == 0 {
		return
	}
	if err := daemon.SetPriority(c.nice); err != nil {
		c.log.Info("cannot raise the priority of the controller, which keeps the one it has", "why", err)
	}
}

// prepare reads what the flags name, after it got the certificate with a join token, and opens nothing.
func prepare(ctx context.Context, o *options, stderr io.Writer) (*controller, error) {
	logger, err := o.Log.Logger(stderr)
	if err != nil {
		return nil, exit.Wrap(exit.Usage, err)
	}
	c := &controller{options: o, log: logger, registry: daemon.Registry(daemon.Version()), cluster: &cluster{}}
	if err := o.readVerdict(); err != nil {
		return nil, err
	}
	if err := o.issueOwn(logger); err != nil {
		return nil, err
	}
	if err := o.enroll(ctx, c); err != nil {
		return nil, err
	}
	return c, c.identify()
}

// finish closes everything, after an error or after a graceful stop.
func (c *controller) finish(err error) error { return errors.Join(err, c.close()) }

// identify loads the certificate, whose identity is this controller's.
func (c *controller) identify() (err error) {
	if c.creds, err = daemon.LoadCredentials(c.Files, pki.Controller); err != nil {
		return err
	}
	certified := c.creds.Identity().Name
	if c.name != "" && c.name != certified {
		return exit.Usagef("start controller %s: its certificate %s is for %s; issue one for it, or start it as --name %s", c.name, c.Files.Cert, certified, certified)
	}
	c.name = certified
	c.log = c.log.With("controller", c.name)
	return nil
}

// open opens what may be refused, the cheapest first, then the member, then what needs the member.
func (c *controller) open(ctx context.Context) error {
	if err := os.MkdirAll(c.dataDir, 0o700); err != nil {
		return exit.Usagef("make the data folder: %w; choose another with --data-dir", err)
	}
	if err := c.listen(ctx); err != nil {
		return err
	}
	if err := daemon.WatchCertificate(ctx, c.creds, c.registry, c.log); err != nil {
		return err
	}
	go c.keepOwn(ctx)
	c.sessions = session.NewServer(c.cluster, c.log)
	c.members = session.NewMembers(c.sessions)
	c.monitor = policy.NewMonitor(policy.MonitorConfig{
		Member: c.cluster, Members: c.members, Name: c.name, NodeTimeout: c.nodeTimeout, ReplaceAfter: c.replaceAfter, KeptRetention: c.keptRetention, ConvertTimeout: c.convertTimeout,
		Logger: c.log, OnClockSkew: c.onClockSkew,
	})
	if err := c.openServers(); err != nil {
		return err
	}
	member, err := raftnode.Open(ctx, c.memberConfig())
	if err != nil {
		return exit.Wrap(exit.Refused, fmt.Errorf("start the Raft member of %s: %w", c.name, err))
	}
	c.member = member
	c.cluster.openMember.Store(member)
	if err := c.registry.Register(newToleranceCollector(member.Fork, (&adminCluster{cluster: c.cluster}).Members)); err != nil {
		return fmt.Errorf("register the metrics of what is tolerated: %w", err)
	}
	if err := c.exportOwnMetrics(); err != nil {
		return err
	}
	return c.openBackups()
}

// listen opens every listener before the member starts, so that a port in use is reported before
// anything else happens. Health answers from here on.
func (c *controller) listen(ctx context.Context) (err error) {
	if c.raftListener, err = daemon.Listen(ctx, "Raft", "raft-listen", c.raftListen); err != nil {
		return err
	}
	if c.apiListener, err = daemon.Listen(ctx, "the API", "api-listen", c.apiListen); err != nil {
		return err
	}
	if err := c.openEnrollment(ctx); err != nil {
		return err
	}
	metrics, err := daemon.Listen(ctx, "metrics and health", "metrics-listen", c.MetricsListen)
	if err != nil {
		return err
	}
	c.health = daemon.ServeHealth(metrics, c.registry, c.cluster.Ready, c.Profile, c.log, stopGate(c.name, &adminCluster{cluster: c.cluster}))
	if c.csiListener, err = server.Listen(c.CSIEndpoint); err != nil {
		return exit.Wrap(exit.Unavailable, err)
	}
	return nil
}

func (c *controller) memberConfig() raftnode.Config {
	return raftnode.Config{
		Dir: c.dataDir, Name: c.name, LogStore: c.logStore, Version: daemon.Version(),
		APIAddr: firstNonEmpty(c.apiAdvertise, c.apiListener.Addr().String()),
		Site:    c.site, Zone: c.zone, EnrollAddr: c.enrollAddress(),
		Listener: c.raftListener, Advertise: c.raftAdvertise, Credentials: c.creds,
		Bootstrap: c.bootstrap, Join: c.join, BootstrapMarker: c.bootstrapMarker, NoBootstrapMarker: c.bootstrapFrom != "",
		Facts: c.monitor.Facts().Attach, Services: c.sessions.RegisterPeers,
		HeartbeatTimeout: c.heartbeat, ElectionTimeout: c.election, LeaseTimeout: c.lease,
		SnapshotThreshold: c.snapshotThreshold, TrailingLogs: c.trailingLogs, SnapshotInterval: c.snapshotInterval,
		CheckpointEvery: c.checkpointEvery, DiskHang: c.diskHang, SegmentSize: c.segmentSize,
		DiskReserve: c.diskReserve, DiskGuard: c.diskGuard, JournalRetain: c.journalRetain,
		Logger: c.log, Metrics: c.registry,
	}
}

func firstNonEmpty(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// onClockSkew transfers leadership: this leader's clock must not stamp commands (S27).
func (c *controller) onClockSkew(ctx context.Context, ahead time.Duration) {
	c.log.Error("this leader's clock is wrong: handing leadership to another member", "ahead", ahead)
	if err := c.member.TransferLeadership(ctx); err != nil {
		c.log.Warn("cannot transfer leadership", "error", err)
	}
}

// serve serves until ctx ends or a listener fails, then drains.
func (c *controller) serve(ctx context.Context) error {
	serveCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var group errgroup.Group
	failed := make(chan struct{})
	var once sync.Once
	run := func(what string, fn func() error) {
		group.Go(func() error {
			err := fn()
			if err != nil {
				once.Do(func() { close(failed) })
				return fmt.Errorf("%s: %w", what, err)
			}
			return nil
		})
	}
	run("serve the API", func() error {
		if err := c.api.Serve(c.apiListener); !errors.Is(err, grpc.ErrServerStopped) {
			return err
		}
		return nil // stopped before it served
	})
	if c.enrollment != nil {
		run("serve enrolment", c.serveEnrollment)
	}
	run("serve CSI", func() error { return server.Run(serveCtx, c.csi, c.csiListener) })
	run("watch the hosts", func() error { return c.monitor.Run(serveCtx) })
	run("register this controller", func() error { return c.registerMember(serveCtx) })
	if c.backups != nil {
		run("write backups", func() error { return c.backups.Run(serveCtx) })
	}
	run("count operations", func() error { return countOperations(serveCtx, c.member, c.registry) })
	select {
	case <-ctx.Done():
	case <-failed:
	}
	c.drain(stop)
	return group.Wait()
}

// drain transfers leadership first, so that pending commands complete at the next leader,
// then ends the calls and the sessions.
func (c *controller) drain(stop func()) {
	c.log.Info("stopping: leadership is handed over and calls under way end")
	c.cluster.draining.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), c.drainTimeout)
	defer cancel()
	if err := c.member.TransferLeadership(ctx); err != nil {
		c.log.Warn("leadership was not handed over; the others elect a leader", "error", err)
	}
	if c.enrollment != nil {
		c.enrollment.server.Stop()
	}
	c.sessions.Close()
	stop() // stops the CSI server gracefully
	ended := make(chan struct{})
	go func() { c.api.GracefulStop(); close(ended) }()
	select {
	case <-ended:
	case <-ctx.Done():
		c.api.Stop()
	}
}

// close closes what was opened; it may be called at any stage.
func (c *controller) close() error {
	var errs []error
	if c.member != nil {
		errs = append(errs, c.member.Close())
	}
	for _, l := range []net.Listener{c.raftListener, c.apiListener, c.csiListener} {
		if l != nil {
			_ = l.Close() // the servers close theirs too
		}
	}
	if c.enrollment != nil {
		_ = c.enrollment.listener.Close() // its server closes it too
	}
	if c.health != nil {
		c.health.Close()
	}
	return errors.Join(errs...)
}
