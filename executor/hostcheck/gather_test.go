package hostcheck

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// plantRoot makes a root folder with files.
func plantRoot(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	return root
}

// plantedHost is a machine of files, commands and addresses.
func plantedHost(t *testing.T) (*Gatherer, string) {
	root := plantRoot(t, map[string]string{
		"proc/sys/kernel/hostname": "n1\n", "proc/sys/kernel/osrelease": "6.1.0\n",
		"proc/filesystems":                           "nodev\tsysfs\n\text4\n",
		"proc/self/limits":                           "Limit  Soft Limit  Hard Limit\nMax open files            1024                 524288               files\n",
		"proc/77/limits":                             "Max open files            65536                524288               files\n",
		"lib/modules/6.1.0/modules.dep":              "kernel/fs/xfs/xfs.ko.xz: kernel/lib/libcrc32c.ko.xz\nkernel/drivers/md/dm-crypt.ko:\n",
		"lib/modules/6.1.0/modules.builtin":          "kernel/drivers/block/loop.ko\n",
		"sys/module/drbd/version":                    "9.2.4\n",
		"sys/module/drbd/parameters/usermode_helper": "/usr/sbin/drbdadm\n",
		"sys/fs/cgroup/cgroup.controllers":           "cpu io memory\n",
		"sys/block/dm-3/dm/uuid":                     "mpath-36001\n", "sys/block/dm-3/slaves/dm-1/x": "", "sys/block/dm-3/slaves/sda/x": "",
		"sys/block/dm-1/dm/name": "vg-hf--00000000\n", "sys/block/dm-1/dm/uuid": "LVM-x\n",
		"run/udev/control": "", "run/chrony/chronyd.pid": "12",
		"etc/lvm/devices/system.devices": "# LVM\nIDTYPE=sys_wwid IDNAME=x DEVNAME=/dev/sda PVID=y\n",
		"data/lock":                      "", "pki/cert.pem": "no certificate", "pki/key.pem": "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
	})
	require.NoError(t, os.Chmod(filepath.Join(root, "data"), 0o700))
	require.NoError(t, os.Chmod(filepath.Join(root, "pki"), 0o700))
	outputs := map[string]string{
		"mkfs.xfs -V": "mkfs.xfs version 6.1.0\n", "lvm version": "  LVM version:     2.03.16(2) (2022-05-18)\n",
		"drbdadm --version": "DRBDADM_BUILDTAG=GIT-hash:\\ 1.0\nDRBDADM_API_VERSION=2\nDRBDADM_VERSION=9.22.0\n",
		"lvm lvmconfig --typeconfig full devices/global_filter devices/filter devices/use_devicesfile devices/devicesfile devices/scan_lvs global/event_activation": "global_filter=[\"r|^/dev/drbd|\",\"a|.*|\"]\nuse_devicesfile=1\ndevicesfile=\"system.devices\"\nscan_lvs=0\nevent_activation=1\n",
		"lvm vgs --config " + noVolumes + " --noheadings -o vg_name":                                                "  vg\n",
		"lvm lvs --config " + noVolumes + " --noheadings --separator | -o lv_name,data_percent,metadata_percent vg": "  thin|81.50|12.00\n  other||\n",
	}
	command := func(_ context.Context, tool string, args ...string) (string, error) {
		out, ok := outputs[strings.Join(append([]string{tool}, args...), " ")]
		if !ok {
			return "", errors.New("exit code 1")
		}
		return out, nil
	}
	system := System{
		Root: root, Run: command, RunBoth: command, Now: func() time.Time { return now }, UID: func() int { return 0 },
		LookPath: func(tool string) (string, error) {
			if tool == "cryptsetup" {
				return "", errors.New("cryptsetup is not in [/bin]: install the package cryptsetup-bin")
			}
			return "/usr/sbin/" + tool, nil
		},
		Adjtime: func() (Clock, error) { return Clock{Synchronised: true, MaxError: time.Millisecond}, nil },
		Statfs: func(string) (unix.Statfs_t, error) {
			return unix.Statfs_t{Bsize: 4096, Blocks: 100, Bavail: 50, Files: 10, Ffree: 5}, nil
		},
		Dial: func(_ context.Context, address string) error {
			if address == "c2:1" {
				return errors.New("refused")
			}
			return nil
		},
	}
	config := Config{
		Role: Node, Version: "v1", DataDir: "/data", LockFile: "lock", Folders: []string{"/pool/not/made"}, ThinPools: [][2]string{{"vg", "thin"}, {"none", "x"}},
		Cert: "/pki/cert.pem", Key: "/pki/key.pem", CA: "/pki/ca.pem", Endpoints: []string{"c1:1", "c2:1"}, Writes: 5,
		Identity: func(dir string) (string, error) { return "host of " + filepath.Base(dir), nil },
	}
	return &Gatherer{Config: config, System: system}, root
}

// lockLine is how the kernel lists an flock.
func lockLine(t *testing.T, path string, pid int) string {
	var st syscall.Stat_t
	require.NoError(t, syscall.Stat(path, &st))
	return fmt.Sprintf("1: FLOCK  ADVISORY  WRITE %d %02x:%02x:%d 0 EOF\n", pid, unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
}

func TestGatherReadsAPlantedHost(t *testing.T) {
	g, root := plantedHost(t)
	require.NoError(t, os.WriteFile(filepath.Join(root, "proc/locks"), []byte(lockLine(t, filepath.Join(root, "data/lock"), 77)), 0o600))
	for range 2 {
		f := g.Gather(t.Context())
		require.Equal(t, "n1", f.Hostname)
		require.Equal(t, "6.1.0", f.Kernel)
		require.Equal(t, map[string]Module{
			"loop": {Loaded: true, Available: true}, "xfs": {Available: true}, "ext4": {Loaded: true, Available: true}, "dm_mod": {},
			"dm_thin_pool": {}, "dm_crypt": {Available: true}, "drbd": {Loaded: true, Available: true, Version: "9.2.4"},
		}, f.Modules)
		require.Equal(t, Tool{Path: "/usr/sbin/mkfs.xfs", Version: "6.1.0"}, f.Tools["mkfs.xfs"])
		require.Equal(t, "2.03.16", f.Tools["lvm"].Version)
		require.Equal(t, "9.22.0", f.Tools["drbdadm"].Version)
		require.Equal(t, Tool{Path: "/usr/sbin/dmsetup"}, f.Tools["dmsetup"], "its version was not told")
		require.Contains(t, f.Tools["cryptsetup"].Err, "cryptsetup-bin")
		require.Equal(t, &LVM{GlobalFilter: []string{"r|^/dev/drbd|", "a|.*|"}, UseDevices: true, Devices: []string{"/dev/sda"}, AutoActivate: true}, f.LVM)
		require.Equal(t, []ThinPool{{VG: "vg", Name: "thin", Data: 81.5, Meta: 12, Checked: true}, {VG: "none", Name: "x", NoVG: true}}, f.ThinPools)
		require.Equal(t, &Multipath{Claims: []string{"vg-hf--00000000"}}, f.Multipath)
		require.Equal(t, "/usr/sbin/drbdadm", f.DRBD.Parameters["usermode_helper"])
		require.Equal(t, "it is not on the host's own root", f.DRBD.HelperErr)
		require.Equal(t, &Cgroup{Version: 2, IO: true}, f.Cgroup)
		require.Equal(t, &Clock{Synchronised: true, MaxError: time.Millisecond, Daemon: "chronyd"}, f.Clock)
		require.Equal(t, &DataDir{Path: "/data", Mode: 0o700, Identity: "host of data", Holder: 77}, f.DataDir)
		require.Equal(t, &Limits{PID: 77, Files: 65536}, f.Limits)
		require.Equal(t, 5, f.Disk.Writes)
		require.Empty(t, f.Disk.Err)
		require.LessOrEqual(t, f.Disk.P50, f.Disk.P99)
		require.Len(t, f.Spaces, 2)
		require.Equal(t, Space{Path: "/pool/not/made", Free: 50 * 4096, Total: 100 * 4096, FreeInodes: 5, Inodes: 10}, f.Spaces[1])
		require.Equal(t, []string{"it holds no PEM certificate", "", "no such file or directory"}, []string{f.Certs[0].Err, f.Certs[1].Err, f.Certs[2].Err})
		require.Equal(t, "refused", f.Reached[1].Err)
		require.Empty(t, f.Reached[0].Err)
	}
	left, err := os.ReadDir(filepath.Join(root, "data"))
	require.NoError(t, err)
	require.Len(t, left, 1, "the file that measured the disk is gone")
}

func TestGatherOfAnEmptyHostFindsTroubleAndDoesNotFail(t *testing.T) {
	g, _ := plantedHost(t)
	g.Root = t.TempDir()
	g.Run = func(context.Context, string, ...string) (string, error) { return "", errors.New("exit code 5") }
	g.Adjtime = func() (Clock, error) { return Clock{}, errors.New("not permitted") }
	g.Statfs = func(string) (unix.Statfs_t, error) { return unix.Statfs_t{}, errors.New("stale") }
	for range 2 {
		f := g.Gather(t.Context())
		require.True(t, f.DataDir.Missing)
		require.Nil(t, f.Disk)
		require.Equal(t, "exit code 5", f.LVM.Err)
		require.Equal(t, "exit code 5", f.ThinPools[0].Err)
		require.Equal(t, "not permitted", f.Clock.Err)
		require.Equal(t, "stale", f.Spaces[0].Err)
		require.NotEmpty(t, f.Limits.Err)
		require.Equal(t, Error, Check(f)[0].Severity)
	}
}

func TestALockThatNobodyHasAndLocksThatCannotBeRead(t *testing.T) {
	g, root := plantedHost(t)
	require.NotEmpty(t, g.dataDir().LockErr, "there is no list of locks")
	require.NoError(t, os.WriteFile(filepath.Join(root, "proc/locks"), []byte("1: POSIX  ADVISORY  WRITE 5 00:01:2 0 EOF\n"), 0o600))
	for range 2 {
		require.Zero(t, g.dataDir().Holder)
		require.Empty(t, g.dataDir().LockErr)
	}
}

func TestAKeysContentIsInNoFact(t *testing.T) {
	g, root := plantedHost(t)
	const canary = "canary-of-a-key"
	require.NoError(t, os.WriteFile(filepath.Join(root, "pki/key.pem"), []byte(canary), 0o600))
	for range 2 {
		text, err := g.Gather(t.Context()).Encode()
		require.NoError(t, err)
		require.NotContains(t, string(text), canary)
	}
}

func TestFactsAreSharedForSomeSeconds(t *testing.T) {
	g, root := plantedHost(t)
	at := now
	g.Now = func() time.Time { return at }
	s := &Shared{Gatherer: g}
	running := func() bool {
		facts, err := s.Facts(t.Context())
		require.NoError(t, err)
		return facts.Udev.Running
	}
	require.True(t, running())
	require.NoError(t, os.Remove(filepath.Join(root, "run/udev/control")))
	for range 2 {
		require.True(t, running(), "it is not looked at again at once")
	}
	at = at.Add(keepFacts)
	for range 2 {
		require.False(t, running())
	}
}

// A disk that hangs costs one look, however many ask and give up; once it answers, so does the host.
func TestADiskThatHangsKeepsOneLookWaiting(t *testing.T) {
	g, _ := plantedHost(t)
	statfs := g.Statfs
	var looks atomic.Int32
	answers := make(chan struct{})
	g.Statfs = func(path string) (unix.Statfs_t, error) {
		looks.Add(1)
		<-answers
		return statfs(path)
	}
	s := &Shared{Gatherer: g}
	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		_, looking, _ := s.lastOrLook(ctx)
		cancel()
		_, err := s.Facts(ctx)
		require.ErrorContains(t, err, "hangs")
		require.Equal(t, s.looking, looking, "it is the same look")
	}
	close(answers)
	facts, err := s.Facts(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, len(facts.Spaces), looks.Load(), "each folder was looked at once")
}

func TestRelativePathsAreBelowTheWorkingFolder(t *testing.T) {
	dir, err := os.Getwd()
	require.NoError(t, err)
	for range 2 {
		g := New(Config{DataDir: "data", Cert: "/pki/cert", Folders: []string{"pool"}})
		require.Equal(t, []string{filepath.Join(dir, "data"), "/pki/cert", filepath.Join(dir, "pool")}, []string{g.DataDir, g.Cert, g.Folders[0]})
		require.Empty(t, g.Key)
	}
}
