package node

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-storage/holdfast/cmd/daemon"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/executor/fencepeer"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// The values of --pool-image.
const (
	imageAuto  = "auto"
	imageNever = "never"
)

// options are the flags.
type options struct {
	daemon.Flags
	disabled                   daemon.DisableFlags
	token                      daemon.TokenFlags
	mountFlags                 daemon.MountFlags
	join                       daemon.JoinFlags
	kubeletFlags               kubeletFlags
	enrollFlags                daemon.EnrollFlags
	id, dataDir, poolDir, site string
	endpoints, allowRoots      []string
	labels, pools              []string
	overcommit                 float64
	poolImage                  string
	minFree                    bytesFlag
	maxVolumes                 uint32
	faultPoints                bool
	mountGroup                 bool
	ioCgroup                   string
	freezeMax, healthInterval  time.Duration
	replicationAddress         string
	fenceAddresses             []string
	fencePeerSocket, handler   string
	drbdDir, selfFence         string
	koCount                    int
	verifyInterval             time.Duration
	nodeTimeout                time.Duration
}

// Command is `holdfast node`.
func Command() *cobra.Command {
	o := &options{minFree: 1 << 30}
	cmd := &cobra.Command{Use: "node", Short: "Run a node: one storage host with its pool and its mounts",
		Long: "Runs one storage host until SIGINT or SIGTERM. It makes its pools, their devices and its mounts what the log\n" +
			"says, and serves CSI's node service. It needs root. Staged volumes stay mounted when it stops.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Usagef("unexpected argument %q; see `holdfast node --help`", args[0])
			}
			o.applyPoolDefaults(cmd.Flags().Changed("pool-dir"))
			if err := o.check(); err != nil {
				return err
			}
			return serve(cmd.Context(), o, cmd.ErrOrStderr())
		}}
	flags := cmd.Flags()
	o.Add(flags, "127.0.0.1:9811", os.Getenv("CSI_ENDPOINT"))
	flags.StringVar(&o.id, "node-id", "", "this host's `name`: CSI's node id and the value of its topology key; the one in its certificate by default, and it must be the same")
	flags.StringVar(&o.dataDir, "data-dir", "/var/lib/holdfast/node", "`folder` of what this host must remember, mode 0700")
	flags.StringVar(&o.poolDir, "pool-dir", "/var/lib/holdfast/pool", "`folder` of a pool of files; an empty one becomes a new pool; with --pool there is one only if this is given too")
	flags.StringVar(&o.poolImage, "pool-image", imageAuto, "`auto`: a new pool of files on a filesystem that shares no blocks (no reflink) gets an xfs of its own, in a file that grows; `never`: it copies for snapshots and clones")
	flags.StringArrayVar(&o.pools, "pool", nil, "a pool as `lvm:VG/POOL`: the thin pool POOL of the volume group VG, made of 90 % of what is free there if it is missing; repeatable")
	flags.StringVar(&o.site, "site", "default", "`name` of the site that this host is at")
	flags.StringSliceVar(&o.endpoints, "endpoints", nil, "API `addresses` of the controllers, host:port")
	flags.StringArrayVar(&o.allowRoots, "allow-root", []string{"/var/lib/kubelet"}, "`folder` below which volumes may be mounted; repeatable")
	flags.StringArrayVar(&o.labels, "label", nil, "topology `key=value` of this host, such as topology.holdfast.storage/zone=a; repeatable")
	flags.Float64Var(&o.overcommit, "overcommit", 0, "how many times its capacity a pool may reserve for volumes and snapshots, which count with their whole size; 2 by default. Up to 2 no volume is made larger than what is free, above that than half as many times")
	flags.Var(&o.minFree, "min-free", "free `bytes` below which a pool gets no new volume; KiB, MiB, GiB and TiB are understood")
	flags.Uint32Var(&o.maxVolumes, "max-volumes", 0, "how many volumes may be published here at once; 0: no limit")
	flags.StringVar(&o.ioCgroup, "io-cgroup", "", "control `group` of the workloads, in which volumes' I/O limits are put in force; the kubelets' pods are found by default, but with cgroup v1 it must be given")
	flags.DurationVar(&o.freezeMax, "freeze-max", 10*time.Second, "how long a filesystem may be frozen for a snapshot at most")
	flags.DurationVar(&o.healthInterval, "health-interval", 10*time.Second, "how often the volumes are examined")
	flags.StringVar(&o.replicationAddress, "replication-address", "", "`IP` address that other hosts replicate to, or the network, as 10.1.0.0/16, in which this host has one; empty: this host holds no replicas of replicated volumes")
	flags.StringArrayVar(&o.fenceAddresses, "fence-address", nil, "`IP` address of this host by which a NetworkFence finds it; repeatable; the one it replicates with and those from which it reaches the controllers are known")
	flags.StringVar(&o.fencePeerSocket, "fence-socket", fencepeer.DefaultSocket, "`path` of the socket at which the kernel's handler asks whether a volume may go on without its peer")
	flags.StringVar(&o.handler, "handler", "/usr/sbin/holdfast", "`path` of a copy of this program on the host's own root, which the kernel runs as that handler")
	flags.StringVar(&o.drbdDir, "drbd-dir", "/etc/drbd.d", "`folder` of DRBD's resource files, which drbdadm reads")
	flags.IntVar(&o.koCount, "ko-count", 1, "DRBD's ko-count, 1 to 200: how many times 1.9 s the other replica's host may take to confirm a write before this host, if it is primary, goes on without it")
	flags.DurationVar(&o.verifyInterval, "verify-interval", 7*24*time.Hour, "how often the replicas of a volume are compared; 0: never")
	flags.StringVar(&o.selfFence, "self-fence", "", "`reboot`: this host reboots itself when an outdated replica cannot be torn down within a minute; without it, that replica's I/O stays suspended")
	flags.DurationVar(&o.nodeTimeout, "node-timeout", 10*time.Second, "how long this host may be without a session with any controller before a primary without its peer suspends its I/O, where its replication says isolated: freeze: as the controllers have it")
	flags.BoolVar(&o.mountGroup, "volume-mount-group", false, "serve VOLUME_MOUNT_GROUP: this host, not the kubelet, gives every file of a volume to the pod's fsGroup")
	o.disabled.Add(flags)
	o.join.Add(flags, pki.Node)
	o.enrollFlags.Add(flags)
	o.token.Add(flags)
	o.mountFlags.Add(flags)
	o.kubeletFlags.add(flags)
	flags.BoolVar(&o.faultPoints, "enable-fault-points", false, "let this process be made to fail on purpose, for tests")
	return cmd
}

// check refuses values that flag parsing cannot.
func (o *options) check() error {
	switch {
	case len(o.endpoints) == 0 && !o.enrollFlags.Given() && !o.join.Known(o.Files):
		return exit.Usagef("--endpoints is not set: name the API addresses of the controllers")
	case o.dataDir == "" || o.poolDir == "" && len(o.pools) == 0:
		return exit.Usagef("--data-dir and --pool-dir may not be empty")
	case o.overcommit != 0 && !(o.overcommit >= 0.01 && o.overcommit <= 1000):
		return exit.Usagef("--overcommit %v: choose 0.01 to 1000", o.overcommit)
	case o.poolImage != imageAuto && o.poolImage != imageNever:
		return exit.Usagef("--pool-image %q: choose auto or never", o.poolImage)
	case o.minFree < 0:
		return exit.Usagef("--min-free is below zero")
	case o.freezeMax < 100*time.Millisecond || o.freezeMax > time.Minute:
		return exit.Usagef("--freeze-max %s: choose 100ms to 1m", o.freezeMax)
	case o.koCount < 1 || o.koCount > 200:
		return exit.Usagef("--ko-count %d: choose 1 to 200", o.koCount)
	case o.nodeTimeout < time.Second:
		return exit.Usagef("--node-timeout %s: choose 1s or more", o.nodeTimeout)
	case o.healthInterval < 100*time.Millisecond:
		return exit.Usagef("--health-interval %s: choose 100ms or more", o.healthInterval)
	}
	if _, err := o.thinPools(); err != nil {
		return err
	}
	if _, err := o.topology(); err != nil {
		return err
	}
	if _, err := o.givenAddresses(); err != nil {
		return err
	}
	if _, err := o.disabled.Disabled(); err != nil {
		return err
	}
	if rej := fsm.CheckSite(o.site); rej != nil {
		return exit.Usagef("--site: %w", rej)
	}
	if err := o.mountFlags.Check(); err != nil {
		return err
	}
	if err := o.token.Check(); err != nil {
		return err
	}
	if err := o.enrollFlags.Check(o.id, &o.join); err != nil {
		return err
	}
	if err := o.checkReplication(); err != nil {
		return err
	}
	if err := o.Flags.Check(); err != nil {
		return err
	}
	return o.kubeletFlags.check(o.CSIEndpoint)
}

// topology parses --label.
func (o *options) topology() ([]fsm.Label, error) {
	var labels []fsm.Label
	for _, text := range o.labels {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" || value == "" {
			return nil, exit.Usagef("--label %q is not of the form key=value", text)
		}
		if slices.ContainsFunc(labels, func(l fsm.Label) bool { return l.Key == key }) {
			return nil, exit.Usagef("--label %q: the key is given twice", text)
		}
		labels = append(labels, fsm.Label{Key: key, Value: value})
	}
	slices.SortFunc(labels, func(a, b fsm.Label) int { return cmp.Compare(a.Key, b.Key) })
	return labels, nil
}

// BytesFlag is a flag of a number of bytes, as --min-free is.
func BytesFlag(to *int64) pflag.Value { return (*bytesFlag)(to) }

// bytesFlag is a number of bytes; 512MiB and 1.5GiB are accepted too.
type bytesFlag int64

var units = []struct {
	suffix string
	factor float64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"", 1}}

// Set implements pflag.Value.
func (b *bytesFlag) Set(text string) error {
	for _, u := range units {
		number, ok := strings.CutSuffix(text, u.suffix)
		if !ok {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || value < 0 || value*u.factor >= math.MaxInt64 {
			return fmt.Errorf("it is no number of bytes like 1073741824 or 1GiB")
		}
		*b = bytesFlag(value * u.factor)
		return nil
	}
	return nil
}

func (b *bytesFlag) String() string { return strconv.FormatInt(int64(*b), 10) }

// Type implements pflag.Value.
func (b *bytesFlag) Type() string { return "bytes" }
