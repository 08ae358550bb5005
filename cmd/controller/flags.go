package controller

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/cmd/daemon"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// options are the flags.
type options struct {
	daemon.Flags
	disabled                                daemon.DisableFlags
	token                                   daemon.TokenFlags
	mounts                                  daemon.MountFlags
	groups                                  groupFlags
	backup                                  backupFlags
	enrollFlags                             enrollFlags
	Join                                    daemon.JoinFlags
	isSet                                   func(flag string) bool // somewhere but by default
	name, dataDir, site, zone               string
	raftListen, raftAdvertise               string
	apiListen, apiAdvertise                 string
	bootstrap                               bool
	bootstrapMarker, bootstrapFrom          string
	join                                    []string
	logStore                                string
	heartbeat, election, lease              time.Duration
	nice                                    int
	snapshotThreshold, trailingLogs         uint64
	snapshotInterval, diskHang, nodeTimeout time.Duration
	replaceAfter, keptRetention             time.Duration
	convertTimeout                          time.Duration
	checkpointEvery                         uint64
	segmentSize                             int
	diskReserve, diskGuard, journalRetain   int64
	drainTimeout                            time.Duration
}

// Command is `holdfast controller`.
func Command() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{Use: "controller", Short: "Run a controller: a Raft member that serves CSI",
		Long: "Runs one controller until SIGINT or SIGTERM, which hands leadership over, ends the calls under way and stops.\n" +
			"The first controller of a new cluster is started with --bootstrap, the others with --join. With --join and the\n" +
			"addresses of all controllers beside it, --bootstrap may stay in the unit file: a controller that lost its disk then\n" +
			"never makes a second cluster, and waits to be taken in by `holdfast members replace`.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Usagef("unexpected argument %q; see `holdfast controller --help`", args[0])
			}
			o.isSet = cmd.Flags().Changed
			if err := o.check(); err != nil {
				return err
			}
			return run(cmd.Context(), o, cmd.ErrOrStderr())
		}}
	flags := cmd.Flags()
	o.Add(flags, "127.0.0.1:9801", os.Getenv("CSI_ENDPOINT"))
	flags.StringVar(&o.name, "name", "", "this controller's `name`; the one in its certificate by default, and it must be the same")
	flags.StringVar(&o.dataDir, "data-dir", "/var/lib/holdfast/controller", "`folder` of the log, its snapshots and the journal, mode 0700")
	flags.StringVar(&o.site, "site", "default", "`name` of the site that this controller acts for")
	flags.StringVar(&o.zone, "zone", "", "`name` of the zone that this controller runs in, as hosts have it in their label topology.holdfast.storage/zone: `holdfast members` and `holdfast doctor` say whether a zone may be lost")
	flags.StringVar(&o.raftListen, "raft-listen", "127.0.0.1:9800", "`address` of the Raft listener, for controllers only")
	flags.StringVar(&o.raftAdvertise, "raft-advertise", "", "`address` that the other controllers dial; --raft-listen by default")
	flags.StringVar(&o.apiListen, "api-listen", "127.0.0.1:9802", "`address` of the API listener, for nodes and operators")
	flags.StringVar(&o.apiAdvertise, "api-advertise", "", "`address` of the API that `status` shows; --api-listen by default")
	flags.BoolVar(&o.bootstrap, "bootstrap", false, "make a new cluster when the data folder is empty; for one controller only. With --join: only when all of them answered that they know no cluster, else it joins")
	flags.StringVar(&o.bootstrapMarker, "bootstrap-marker", "", "`file` that remembers that --bootstrap was done when the data folder is lost; by default --data-dir with the ending .founded")
	flags.StringVar(&o.bootstrapFrom, "bootstrap-from", "", "`file` of `holdfast kube-init` in the data folder, which says whether --bootstrap is meant; while it is missing this controller does not start")
	flags.StringSliceVar(&o.join, "join", nil, "Raft `addresses` of controllers to join through when the data folder is empty; this controller's own among them is ignored")
	flags.DurationVar(&o.nodeTimeout, "node-timeout", 10*time.Second, "how long a node may be without a session with any controller before it is recorded as unreachable")
	flags.DurationVar(&o.replaceAfter, "replace-after", time.Hour, "how long the host of a replica may be unreachable before the volume gets a replica elsewhere; 0: never by itself")
	flags.DurationVar(&o.convertTimeout, "convert-timeout", 10*time.Minute, "how long the conversion of a volume to a replicated one may take, while nobody can use it, before it is undone")
	flags.DurationVar(&o.keptRetention, "kept-retention", 7*24*time.Hour, "how long a kept copy, a snapshot of what an outdated replica had, stays after all replicas were up to date; 0: until an operator removes it")
	flags.DurationVar(&o.drainTimeout, "drain-timeout", 10*time.Second, "how long calls under way may take to end when this process stops")
	o.disabled.Add(flags)
	o.token.Add(flags)
	o.mounts.Add(flags)
	o.groups.add(flags)
	o.backup.add(flags)
	o.enrollFlags.add(flags)
	o.Join.Add(flags, pki.Controller)
	o.raftFlags(cmd)
	return cmd
}

func (o *options) raftFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.logStore, "log-store", "wal", "Raft log `store`: wal or boltdb; fixed when the data folder is made")
	flags.DurationVar(&o.heartbeat, "heartbeat-timeout", 500*time.Millisecond, "how long a follower waits for the leader before it stands for election")
	flags.DurationVar(&o.election, "election-timeout", 500*time.Millisecond, "how long an election may take before the next")
	flags.DurationVar(&o.lease, "lease-timeout", 0, "how long a leader stays leader without an answer of a majority; at most and by default --heartbeat-timeout")
	flags.IntVar(&o.nice, "nice", -10, "nice `value` of this process where it may choose one (CAP_SYS_NICE): a starved leader loses leadership; 0: leave it")
	flags.Uint64Var(&o.snapshotThreshold, "snapshot-threshold", 8192, "log `entries` after which a Raft snapshot is taken")
	flags.Uint64Var(&o.trailingLogs, "trailing-logs", 0, "log `entries` kept after a snapshot; at least and by default twice the threshold")
	flags.DurationVar(&o.snapshotInterval, "snapshot-interval", 30*time.Second, "how often the threshold is checked")
	flags.Uint64Var(&o.checkpointEvery, "checkpoint-every", 256, "log `entries` between checkpoints of the state's hash")
	flags.DurationVar(&o.diskHang, "disk-hang", 5*time.Second, "how long a disk operation may take before this process ends itself")
	flags.IntVar(&o.segmentSize, "wal-segment-size", 64<<20, "`bytes` of a segment of the wal store")
	flags.Int64Var(&o.diskReserve, "disk-reserve", 64<<20, "`bytes` reserved in the data folder, freed when the disk is full; -1: none")
	flags.Int64Var(&o.diskGuard, "disk-guard", 0, "free `bytes` below which changes are refused; by default 10 % of the disk, at most 256 MiB")
	flags.Int64Var(&o.journalRetain, "journal-retain", 1<<30, "`bytes` of history kept")
}

// check validates combinations of flags.
func (o *options) check() error {
	switch {
	case o.logStore != "wal" && o.logStore != "boltdb":
		return exit.Usagef("--log-store %q is neither wal nor boltdb", o.logStore)
	case o.dataDir == "":
		return exit.Usagef("--data-dir is not set")
	case o.bootstrapMarker != "" && isInside(o.dataDir, o.bootstrapMarker):
		return exit.Usagef("--bootstrap-marker %s is inside of --data-dir, and is lost with it: choose a file elsewhere", o.bootstrapMarker)
	case o.bootstrapFrom != "" && (o.bootstrap || o.bootstrapMarker != ""):
		return exit.Usagef("--bootstrap-from says what --bootstrap and --bootstrap-marker say: give one of them")
	case o.bootstrapFrom != "" && !isInside(o.dataDir, o.bootstrapFrom):
		return exit.Usagef("--bootstrap-from %s is not inside of --data-dir: what was decided must be lost with the folder that it was decided for", o.bootstrapFrom)
	case o.bootstrapFrom != "" && len(o.join) == 0:
		return exit.Usagef("--bootstrap-from needs --join with the addresses of all controllers")
	case o.trailingLogs != 0 && o.trailingLogs < 2*o.snapshotThreshold:
		return exit.Usagef("--trailing-logs %d is less than twice --snapshot-threshold %d", o.trailingLogs, o.snapshotThreshold)
	case o.lease > o.heartbeat:
		return exit.Usagef("--lease-timeout %s is above --heartbeat-timeout %s", o.lease, o.heartbeat)
	case o.nodeTimeout <= 0 || o.convertTimeout <= 0 || o.drainTimeout <= 0 || o.heartbeat <= 0 || o.election <= 0 || o.lease < 0:
		return exit.Usagef("time-outs must be above zero")
	case o.nice < -20 || o.nice > 19:
		return exit.Usagef("--nice %d: choose -20 to 19", o.nice)
	case o.enrollFlags.selfIssue && o.name == "":
		return exit.Usagef("--self-issue needs --name")
	case o.replaceAfter < 0:
		return exit.Usagef("--replace-after %s is below zero", o.replaceAfter)
	case o.keptRetention < 0:
		return exit.Usagef("--kept-retention %s is below zero", o.keptRetention)
	}
	if _, err := o.disabled.Disabled(); err != nil {
		return err
	}
	if rej := fsm.CheckSite(o.site); rej != nil {
		return exit.Usagef("--site: %w", rej)
	}
	if err := checkZone(o.zone); err != nil {
		return err
	}
	if err := o.enrollFlags.check(); err != nil {
		return err
	}
	if err := o.groups.check(); err != nil {
		return err
	}
	if _, _, err := o.backup.open(); err != nil {
		return err
	}
	if err := o.mounts.Check(); err != nil {
		return err
	}
	if err := o.token.Check(); err != nil {
		return err
	}
	return o.Flags.Check()
}

// isInside tells whether a file is in a directory.
func isInside(dir, file string) bool {
	rel, err := filepath.Rel(dir, file)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}
