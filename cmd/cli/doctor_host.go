package cli

import (
	"context"
	"strings"

	"github.com/spf13/pflag"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/cmd/daemon"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/executor/hostcheck"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/raftnode/store"
)

// hostFlags say what a host is looked at for, under the names that they have for the daemons.
type hostFlags struct {
	role, dataDir, poolDir, replicationAddress, ioCgroup string
	pools, listen                                        []string
}

// The defaults are those of the daemons.
var defaultDataDirs = map[hostcheck.Role]string{hostcheck.Node: "/var/lib/holdfast/node", hostcheck.Controller: "/var/lib/holdfast/controller"}

func (h *hostFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&h.role, "role", "node", "with --host: what it runs, or is to run: `node` or controller")
	setValues(flags.Lookup("role"), []string{string(hostcheck.Node), string(hostcheck.Controller)})
	flags.StringVar(&h.dataDir, "data-dir", "", "with --host: the data `folder`; by default that of the role")
	flags.StringVar(&h.poolDir, "pool-dir", "", "with --host: the `folder` of a pool of files; by default /var/lib/holdfast/pool for a node without --pool")
	flags.StringArrayVar(&h.pools, "pool", nil, "with --host: a thin pool as `lvm:VG/POOL`; repeatable")
	flags.StringVar(&h.replicationAddress, "replication-address", "", "with --host: the `IP` address that other hosts are to replicate to; empty: it is to hold no replicas of replicated volumes")
	flags.StringArrayVar(&h.listen, "listen", nil, "with --host --role controller: an `address` that it is to listen on, of --raft-listen or --api-listen; repeatable")
	flags.StringVar(&h.ioCgroup, "io-cgroup", "", "with --host: the control `group` of the workloads")
}

// firstGiven is the name of a flag of these that was given on the command line, empty when none was.
func (h *hostFlags) firstGiven(flags *pflag.FlagSet) (name string) {
	for _, own := range []string{"role", "data-dir", "pool-dir", "pool", "replication-address", "io-cgroup", "listen"} {
		if name == "" && onCommandLine(flags, own) {
			name = own
		}
	}
	return name
}

// config is what the host is looked at for.
func (h *hostFlags) config(c *connection) (hostcheck.Config, error) {
	config := hostcheck.Config{
		Role: hostcheck.Role(h.role), Version: daemon.Version(), DataDir: h.dataDir, Identity: store.Inspect,
		Cert: c.files.Cert, Key: c.files.Key, CA: c.files.CA, Endpoints: c.endpoints,
		Listen: h.listen, ReplicationAddress: h.replicationAddress,
	}
	switch config.Role {
	case hostcheck.Controller:
		if h.poolDir != "" || len(h.pools) > 0 {
			return config, exit.Usagef("--role controller has no pools: leave out --pool-dir and --pool")
		}
	case hostcheck.Node:
		if len(h.listen) > 0 {
			return config, exit.Usagef("--listen is for --role controller: a node is given --replication-address")
		}
		if err := h.addNode(&config); err != nil {
			return config, err
		}
	default:
		return config, exit.Usagef("--role %q: choose node or controller", h.role)
	}
	if config.DataDir == "" {
		config.DataDir = defaultDataDirs[config.Role]
	}
	return config, nil
}

func (h *hostFlags) addNode(config *hostcheck.Config) error {
	config.LockFile, config.Identity = "lock", records.Inspect
	for _, text := range h.pools {
		name, ok := strings.CutPrefix(text, "lvm:")
		vg, pool, both := strings.Cut(name, "/")
		if !ok || !both || vg == "" || pool == "" || strings.HasPrefix(vg, "-") {
			return exit.Usagef("--pool %q is not of the form lvm:VG/POOL", text)
		}
		config.ThinPools = append(config.ThinPools, [2]string{vg, pool})
	}
	folder := h.poolDir
	if folder == "" && len(h.pools) == 0 {
		folder = "/var/lib/holdfast/pool"
	}
	if folder != "" {
		config.Folders = []string{folder}
	}
	config.Wants = hostcheck.Wants{FilePool: folder != "", ThinPool: len(h.pools) > 0, Replication: h.replicationAddress != "", IOCgroup: h.ioCgroup != ""}
	return nil
}

// examine looks at this host.
func (h *hostFlags) examine(ctx context.Context, c *connection) (*adminpb.DoctorResponse, error) {
	if c.dir != "" {
		return nil, exit.Usagef("--dir is for a developer's cluster, and --host for one host: give one of the two")
	}
	config, err := h.config(c)
	if err != nil {
		return nil, err
	}
	facts := hostcheck.New(config).Gather(ctx)
	resp := &adminpb.DoctorResponse{}
	for _, f := range hostcheck.Check(facts) {
		resp.Findings = append(resp.Findings, &adminpb.Diagnosis{Severity: string(f.Severity), Subject: "host " + facts.Hostname, Found: f.Found, Remedy: f.Remedy, Histogram: buckets(f.Histogram)})
	}
	admin.SortDiagnoses(resp.GetFindings())
	return resp, nil
}

func buckets(all []hostcheck.Bucket) (out []*adminpb.DurationBucket) {
	for _, b := range all {
		out = append(out, &adminpb.DurationBucket{UpToSeconds: b.UpTo.Seconds(), Count: b.Count})
	}
	return out
}
