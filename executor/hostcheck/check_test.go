package hostcheck

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var now = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// wellHost is a node with every sort of pool, and nothing to find.
func wellHost() *Facts {
	f := &Facts{
		Role: Node, Hostname: "n1", At: now, Kernel: "6.1.0", Wants: Wants{FilePool: true, ThinPool: true, Replication: true},
		Modules: map[string]Module{}, Tools: map[string]Tool{}, Udev: &Udev{Running: true},
		LVM:       &LVM{GlobalFilter: []string{"r|^/dev/drbd|", "r|^/dev/loop|", "r|^/dev/mapper/hfc-|"}},
		Multipath: &Multipath{}, DRBD: &DRBD{Version: "9.2.4", Parameters: map[string]string{"usermode_helper": "/usr/sbin/drbdadm"}},
		Cgroup: &Cgroup{Version: 2, IO: true}, Clock: &Clock{Synchronised: true, Daemon: "chronyd"}, Limits: &Limits{Files: 65536},
		DataDir: &DataDir{Path: "/data", Mode: 0o700, Identity: "host 1", Holder: 7},
		Disk:    &Latency{Writes: 200, P50: time.Millisecond, P99: 2 * time.Millisecond, Max: 3 * time.Millisecond},
		Spaces:  []Space{{Path: "/data", Free: 50 << 30, Total: 100 << 30, FreeInodes: 90, Inodes: 100}},
		Certs: []Cert{{Kind: "certificate", Path: "/pki/cert", Mode: 0o600, DirMode: 0o700, NotAfter: now.Add(90 * 24 * time.Hour)},
			{Kind: "key", Path: "/pki/key", Mode: 0o600, DirMode: 0o700}},
		ThinPools: []ThinPool{{VG: "vg", Name: "thin", Data: 20, Meta: 10, Checked: true}},
		Reached:   []Reach{{Address: "c1:9802", Took: time.Millisecond}},
	}
	for _, need := range moduleNeeds {
		f.Modules[need.name] = Module{Loaded: true, Available: true}
	}
	for _, t := range toolsOf(Node) {
		f.Tools[t.name] = Tool{Path: "/usr/sbin/" + t.name, Version: "1.2"}
	}
	return f
}

func TestAWellHostHasNothingToFind(t *testing.T) {
	for range 2 {
		all := Check(wellHost())
		require.Greater(t, len(all), 20)
		for _, f := range all {
			require.Equal(t, OK, f.Severity, f.Found)
			require.NotEmpty(t, f.Found)
			require.Empty(t, f.Remedy)
		}
	}
}

func TestRulesOfAHost(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Facts)
		want   Severity
		found  string // a part of it
		remedy string // a part of it
	}{
		"revocations of a lost log":         {func(f *Facts) { f.Remembered = 2 }, Warn, "remembers 2 revocations", "holdfast adopt"},
		"not root":                          {func(f *Facts) { f.UID = 1000 }, Error, "runs as user 1000", "as root"},
		"a module that a pool needs":        {func(f *Facts) { f.Modules["loop"] = Module{Available: true} }, Error, "loop, for the pool of files, is not loaded", "modprobe loop"},
		"a module that is not there":        {func(f *Facts) { f.Modules["drbd"] = Module{} }, Error, "no module drbd, which replicated volumes need", "modprobe drbd"},
		"a kernel whose modules are hidden": {func(f *Facts) { f.Modules["dm_thin_pool"] = Module{Unlisted: true} }, Unknown, "could not be read", "modprobe dm_thin_pool"},
		"no encryption":                     {func(f *Facts) { f.Modules["dm_crypt"] = Module{} }, Warn, "encrypted volumes cannot be staged", "modprobe dm_crypt"},
		"no xfs":                            {func(f *Facts) { f.Modules["xfs"] = Module{} }, Warn, "volumes with xfs cannot be staged", "modprobe xfs"},
		"an old DRBD":                       {func(f *Facts) { f.DRBD.Version = "8.3.11" }, Error, `"8.3.11"`, "install"},
		"another helper":                    {func(f *Facts) { f.DRBD.Parameters["usermode_helper"] = "/bin/true" }, Error, `"/bin/true", not drbdadm`, "usermode_helper"},
		"no helper on the host":             {func(f *Facts) { f.DRBD.HelperErr = "it is no program" }, Error, "cannot run the helper", "drbd-utils"},
		"a helper that is not known":        {func(f *Facts) { f.DRBD.Parameters = nil }, Unknown, "helper", "parameters"},
		"a command that is missing": {func(f *Facts) {
			f.Tools["mkfs.xfs"] = Tool{Err: "mkfs.xfs is not in [/bin]: install the package xfsprogs"}
		}, Error, "mkfs.xfs, for a node, is missing", "apt-get install xfsprogs"},
		"a thin tool that is missing":      {func(f *Facts) { f.Tools["thin_check"] = Tool{} }, Error, "thin_check", "install it"},
		"a tool that helps":                {func(f *Facts) { f.Tools["cryptsetup"] = Tool{} }, Warn, "cryptsetup, for encrypted volumes", "install it"},
		"no udev":                          {func(f *Facts) { f.Udev.Running = false }, Warn, "no udev", "/run/udev"},
		"multipath has a volume":           {func(f *Facts) { f.Multipath.Claims = []string{"drbd1000"} }, Error, "multipath holds devices of volumes", "multipath.conf"},
		"LVM looks into volumes":           {func(f *Facts) { f.LVM = &LVM{AutoActivate: true} }, Warn, "replicated volumes and encrypted volumes and volumes of a pool of files, and activates", "global_filter"},
		"LVM looks into some volumes":      {func(f *Facts) { f.LVM.GlobalFilter = []string{"a|^/dev/drbd|", "r|.*|"} }, Warn, "inside of replicated volumes:", "global_filter"},
		"a filter that is none":            {func(f *Facts) { f.LVM.GlobalFilter = []string{"x|y|"} }, Unknown, "could not be understood", "global_filter"},
		"LVM cannot be asked":              {func(f *Facts) { f.LVM = &LVM{Err: "exit code 5"} }, Unknown, "exit code 5", "lvmconfig"},
		"a devices file with a volume":     {func(f *Facts) { f.LVM = &LVM{UseDevices: true, Devices: []string{"/dev/sda", "/dev/drbd1000"}} }, Error, "/dev/drbd1000", "lvmdevices --deldev /dev/drbd1000"},
		"LVM is a container's":             {func(f *Facts) { f.LVM = &LVM{Unseen: true, ScanLVs: true} }, Warn, "the host's LVM looks at is not seen", "global_filter"},
		"LVM scans logical volumes":        {func(f *Facts) { f.LVM.ScanLVs = true }, Warn, "inside of logical volumes", "scan_lvs"},
		"cgroup v1":                        {func(f *Facts) { f.Cgroup = &Cgroup{Version: 1, IO: true} }, Warn, "cgroup v1", "--io-cgroup"},
		"cgroup v2 without io":             {func(f *Facts) { f.Cgroup.IO = false }, Warn, "no io controller", "io controller"},
		"no cgroup":                        {func(f *Facts) { f.Cgroup = &Cgroup{} }, Warn, "no control groups", "/sys/fs/cgroup"},
		"a clock that nothing sets":        {func(f *Facts) { f.Clock = &Clock{} }, Warn, "nothing sets", "chrony"},
		"a daemon that did not set it":     {func(f *Facts) { f.Clock.Synchronised = false }, Warn, "chronyd runs, and has not", "chronyc"},
		"a clock that is far off":          {func(f *Facts) { f.Clock.MaxError = 2 * time.Second }, Warn, "may be wrong by 2s", "chronyc"},
		"a clock that cannot be read":      {func(f *Facts) { f.Clock.Err = "not permitted" }, Unknown, "not permitted", "chrony"},
		"few files":                        {func(f *Facts) { f.Limits = &Limits{PID: 7, Files: 1024} }, Warn, "process 7 may open 1024", "LimitNOFILE"},
		"limits that cannot be read":       {func(f *Facts) { f.Limits.Err = "hidden" }, Unknown, "hidden", "limits"},
		"a data folder for all":            {func(f *Facts) { f.DataDir.Mode = 0o755 }, Error, "mode 0755", "chmod 0700 /data"},
		"a damaged identity":               {func(f *Facts) { f.DataDir.Err = "checksum mismatch" }, Error, "checksum mismatch", "nodes replace"},
		"a lock that cannot be read":       {func(f *Facts) { f.DataDir.LockErr = "not permitted" }, Unknown, "not permitted", "root"},
		"a slow disk":                      {func(f *Facts) { f.Disk.P99 = 300 * time.Millisecond }, Warn, "the disk is slow", "flash"},
		"a disk that fails":                {func(f *Facts) { f.Disk = &Latency{Err: "input/output error"} }, Error, "input/output error", "dmesg"},
		"a full disk":                      {func(f *Facts) { f.Spaces[0].Free = 1 << 20 }, Error, "only 1 MiB", "larger"},
		"a disk that is nearly full":       {func(f *Facts) { f.Spaces[0].Free = 9 << 30 }, Warn, "only 9 GiB, 9 %", "larger"},
		"no inodes":                        {func(f *Facts) { f.Spaces[0].FreeInodes = 0 }, Error, "no inode left", "larger"},
		"few inodes":                       {func(f *Facts) { f.Spaces[0].FreeInodes = 1 }, Warn, "only 1 of 100", "larger"},
		"a disk that cannot be asked":      {func(f *Facts) { f.Spaces[0].Err = "stale" }, Unknown, "stale", "mounted"},
		"a certificate that ended":         {func(f *Facts) { f.Certs[0].NotAfter = now }, Error, "ended at 2026-11-26", "ca issue"},
		"a certificate that ends soon":     {func(f *Facts) { f.Certs[0].NotAfter = now.Add(49 * time.Hour) }, Warn, "in 2 days", "ca issue"},
		"a CA that ends soon":              {func(f *Facts) { f.Certs[0].Kind, f.Certs[0].NotAfter = "CA", now.Add(time.Hour) }, Warn, "the CA", "ca make"},
		"a certificate that is none":       {func(f *Facts) { f.Certs[0].Err = "it holds no PEM certificate" }, Error, "no PEM", "ca issue"},
		"a key for all":                    {func(f *Facts) { f.Certs[1].Mode = 0o644 }, Error, "mode 0644", "chmod 600 /pki/key"},
		"a mounted key for all":            {func(f *Facts) { f.Certs[1].Mounted, f.Certs[1].Mode = true, 0o444 }, Error, "mode 0444", "defaultMode: 0400"},
		"a mounted certificate that ended": {func(f *Facts) { f.Certs[0].Mounted, f.Certs[0].NotAfter = true, now }, Error, "ended at 2026-11-26", "ca issue"},
		"a pod with processes of its own":  {func(f *Facts) { f.Namespaces = &Namespaces{OwnPID: true} }, Error, "pid namespace of its own", "hostPID: true"},
		"a pod with a network of its own":  {func(f *Facts) { f.Namespaces = &Namespaces{OwnNet: true} }, Error, "a network or a host name", "hostNetwork: true"},
		"a pod with a name of its own":     {func(f *Facts) { f.Namespaces = &Namespaces{OwnUTS: true} }, Error, "a network or a host name", "hostNetwork: true"},
		"a pod with IPC of its own":        {func(f *Facts) { f.Namespaces = &Namespaces{OwnIPC: true} }, Warn, "IPC namespace", "hostIPC: true"},
		"a helper that is disabled":        {func(f *Facts) { f.DRBD.Parameters["usermode_helper"] = "disabled" }, Error, "disabled on this host", "usermode_helper"},
		"a module that may be refused": {func(f *Facts) {
			f.SignedOnly, f.Modules["drbd"] = true, Module{Available: true, Beside: true}
		}, Warn, "signed modules only", "mokutil"},
		"a folder of keys for all":         {func(f *Facts) { f.Certs[1].DirMode = 0o755 }, Error, "mode 0755", "chmod 700"},
		"no volume group":                  {func(f *Facts) { f.ThinPools[0].NoVG = true }, Error, "no volume group vg", "vgcreate vg"},
		"a thin pool that is full":         {func(f *Facts) { f.ThinPools[0].Data = 95 }, Error, "takes nothing new", "lvextend"},
		"metadata that is full":            {func(f *Facts) { f.ThinPools[0].Meta = 80 }, Error, "its metadata to 80 %", "poolmetadatasize"},
		"a thin pool that is nearly full":  {func(f *Facts) { f.ThinPools[0].Data = 80 }, Warn, "nearly full", "lvextend"},
		"a thin pool that cannot be asked": {func(f *Facts) { f.ThinPools[0].Err = "timed out" }, Unknown, "timed out", "lvs vg"},
		"a thin pool of unknown use":       {func(f *Facts) { f.ThinPools[0].Checked = false }, Unknown, "how full", "lvs vg"},
		"a controller out of reach":        {func(f *Facts) { f.Reached[0].Err = "refused" }, Error, "c1:9802 is not reached from here: refused", "firewall"},
		"one controller out of reach":      {func(f *Facts) { f.Reached = append(f.Reached, Reach{Address: "c2:9802", Err: "refused"}) }, Warn, "c2:9802 is not reached from here: refused", "firewall"},
		"facts of an older build: modules": {func(f *Facts) { f.Modules = nil }, Unknown, "does not look at it", "newest build"},
		"facts of an older build: tools":   {func(f *Facts) { f.Tools = nil }, Unknown, "which commands", "newest build"},
		"facts of an older build: clock":   {func(f *Facts) { f.Clock = nil }, Unknown, "clock", "newest build"},
		"facts of an older build: DRBD":    {func(f *Facts) { f.DRBD = nil }, Unknown, "DRBD", "newest build"},
		"facts of an older build: LVM":     {func(f *Facts) { f.LVM = nil }, Unknown, "which devices LVM", "newest build"},
		"facts of an older build: udev":    {func(f *Facts) { f.Udev = nil }, Unknown, "udev", "newest build"},
		"facts of an older build: limits":  {func(f *Facts) { f.Limits = nil }, Unknown, "files", "newest build"},
		"facts of an older build: cgroup":  {func(f *Facts) { f.Cgroup = nil }, Unknown, "control groups", "newest build"},
		"facts of an older build: mpath":   {func(f *Facts) { f.Multipath = nil }, Unknown, "multipath", "newest build"},
	} {
		t.Run(name, func(t *testing.T) {
			f := wellHost()
			tc.change(f)
			for range 2 {
				first := Check(f)[0]
				require.Equal(t, tc.want, first.Severity, first.Found)
				require.Contains(t, first.Found, tc.found)
				require.Contains(t, first.Remedy, tc.remedy)
			}
		})
	}
}

func TestWhatAHostDoesNotNeedIsNotMissing(t *testing.T) {
	for name, change := range map[string]func(*Facts){
		"a pool of files alone": func(f *Facts) {
			f.Wants = Wants{FilePool: true}
			f.Modules["drbd"], f.Modules["dm_thin_pool"], f.Modules["dm_mod"] = Module{}, Module{Unlisted: true}, Module{}
			f.Tools["lvm"], f.Tools["drbdadm"], f.Tools["losetup"] = Tool{}, Tool{}, Tool{}
			f.Udev.Running, f.DRBD, f.LVM = false, nil, nil
		},
		"modules that are loaded on demand": func(f *Facts) { f.Modules["xfs"], f.Modules["drbd"] = Module{Available: true}, Module{Available: true} },
		"cgroup v1 with a named group":      func(f *Facts) { f.Cgroup, f.Wants.IOCgroup = &Cgroup{Version: 1, IO: true}, true },
		"a folder that is not made yet":     func(f *Facts) { f.DataDir, f.Disk = &DataDir{Path: "/data", Missing: true}, nil },
		"a folder without identity":         func(f *Facts) { f.DataDir.Identity, f.DataDir.Holder = "", 0 },
		"LVM in the container only":         func(f *Facts) { f.LVM = &LVM{HostHasNone: true, ScanLVs: true} },
		"a devices file":                    func(f *Facts) { f.LVM = &LVM{UseDevices: true, Devices: []string{"/dev/sda", "/dev/loop1"}} },
		"a pool that is not made yet":       func(f *Facts) { f.ThinPools[0] = ThinPool{VG: "vg", Name: "thin", NoPool: true} },
		"a mounted Secret": func(f *Facts) {
			for i := range f.Certs {
				f.Certs[i].Mounted, f.Certs[i].Mode, f.Certs[i].DirMode = true, 0o440, 0o777
			}
		},
		"a pod with the host's namespaces": func(f *Facts) { f.Namespaces = &Namespaces{} },
		"a pod without replicas and pools": func(f *Facts) {
			f.Wants, f.Namespaces = Wants{FilePool: true}, &Namespaces{OwnPID: true, OwnNet: true, OwnUTS: true, OwnIPC: true}
		},
		"a module of the kernel's package, signed": func(f *Facts) { f.SignedOnly, f.Modules["drbd"] = true, Module{Available: true} },
		"a module that is loaded already": func(f *Facts) {
			f.SignedOnly, f.Modules["drbd"] = true, Module{Available: true, Loaded: true, Beside: true}
		},
		"a filter that accepts the disks": func(f *Facts) { f.LVM.GlobalFilter = []string{"a|^/dev/sd|", "r|.*|"} },
		"a second filter that rejects":    func(f *Facts) { f.LVM = &LVM{GlobalFilter: []string{"a|.*|"}, Filter: []string{"r(.*)"}} },
	} {
		t.Run(name, func(t *testing.T) {
			f := wellHost()
			change(f)
			for range 2 {
				require.Equal(t, OK, Check(f)[0].Severity, Check(f)[0].Found)
			}
		})
	}
}

func TestAControllerNeedsAFastDiskAndNoTools(t *testing.T) {
	f := wellHost()
	f.Role, f.UID, f.Tools, f.Modules, f.DRBD = Controller, 1000, nil, nil, nil
	require.Equal(t, OK, Check(f)[0].Severity, Check(f)[0].Found)
	f.Disk.P99 = tooSlowWrite
	require.Equal(t, Error, Check(f)[0].Severity)
	require.Contains(t, Check(f)[0].Found, "too slow for a controller")
	f.DataDir.Err = "damaged"
	require.Contains(t, Check(f)[0].Remedy, "members replace")
}

func TestFactsTravel(t *testing.T) {
	text, err := wellHost().Encode()
	require.NoError(t, err)
	for range 2 {
		back, err := Decode(text)
		require.NoError(t, err)
		require.Equal(t, wellHost(), back)
	}
	newer, err := Decode([]byte(`{"role":"node","hostname":"n1","not_known_here":{"a":1}}`))
	require.NoError(t, err, "facts of a newer build are passed over")
	require.Equal(t, "n1", newer.Hostname)
	_, err = Decode([]byte("{"))
	require.ErrorContains(t, err, "read a host's facts")
}
