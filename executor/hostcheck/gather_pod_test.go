package hostcheck

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// linked makes links in a planted root.
func linked(t *testing.T, root string, links map[string]string) {
	t.Helper()
	for name, target := range links {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.Symlink(target, path))
	}
}

func TestNamespacesOfAPod(t *testing.T) {
	host := map[string]string{"proc/self/ns/pid": initialPID, "proc/self/ns/uts": initialUTS, "proc/self/ns/ipc": initialIPC, "proc/self/ns/net": "net:[1]", "proc/1/ns/net": "net:[1]"}
	for name, tc := range map[string]struct {
		change map[string]string
		want   Namespaces
	}{
		"a host":          {},
		"its own pids":    {map[string]string{"proc/self/ns/pid": "pid:[7]", "proc/1/ns/net": "net:[2]"}, Namespaces{OwnPID: true}}, // its first process is no host's
		"its own network": {map[string]string{"proc/self/ns/net": "net:[2]"}, Namespaces{OwnNet: true}},
		"its own name":    {map[string]string{"proc/self/ns/uts": "uts:[2]"}, Namespaces{OwnUTS: true}},
		"its own IPC":     {map[string]string{"proc/self/ns/ipc": "ipc:[2]"}, Namespaces{OwnIPC: true}},
	} {
		t.Run(name, func(t *testing.T) {
			links := map[string]string{}
			for at, target := range host {
				links[at] = target
			}
			for at, target := range tc.change {
				links[at] = target
			}
			g := &Gatherer{System: System{Root: t.TempDir()}}
			require.Nil(t, g.namespaces(), "nothing is seen")
			linked(t, g.Root, links)
			for range 2 {
				require.Equal(t, &tc.want, g.namespaces())
			}
		})
	}
}

// A container's LVM has the image's configuration, of which nothing follows for the host's.
func TestWhoseConfigurationLVMHas(t *testing.T) {
	const mounted = "29 1 8:1 /etc/lvm /etc/lvm rw,relatime - ext4 /dev/sda1 rw\n"
	type files = map[string]string
	for name, tc := range map[string]struct {
		files, links files
		want         *LVM
	}{
		"a host's own":                    {files: files{"etc/lvm/lvm.conf": ""}, links: files{"proc/1/root": "../.."}},
		"a pod that mounts the host's":    {files: files{"etc/lvm/lvm.conf": "", "proc/1/root/etc/lvm/lvm.conf": "", "proc/1/root/usr/sbin/lvm": "", "proc/self/mountinfo": mounted}},
		"a pod with an image's":           {files: files{"etc/lvm/lvm.conf": "", "proc/1/root/etc/lvm/lvm.conf": "", "proc/1/root/usr/sbin/lvm": ""}, want: &LVM{Unseen: true}},
		"a pod on a host without LVM":     {files: files{"etc/lvm/lvm.conf": "", "proc/1/root/etc/hostname": "n1"}, want: &LVM{HostHasNone: true}},
		"who may not see the host's root": {files: files{"etc/lvm/lvm.conf": ""}},
		"pids of its own":                 {files: files{"etc/lvm/lvm.conf": ""}, links: files{"proc/self/ns/pid": "pid:[7]"}, want: &LVM{Unseen: true}},
		"pids of its own, with a mount":   {files: files{"proc/self/mountinfo": mounted}, links: files{"proc/self/ns/pid": "pid:[7]"}},
	} {
		t.Run(name, func(t *testing.T) {
			links := files{"proc/self/ns/pid": initialPID, "proc/1/ns/net": "net:[1]"}
			for at, target := range tc.links {
				links[at] = target
			}
			g := &Gatherer{System: System{Root: t.TempDir()}}
			linked(t, g.Root, links)
			for at, text := range tc.files {
				path := filepath.Join(g.Root, at)
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
				require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			}
			for range 2 {
				require.Equal(t, tc.want, g.containersLVM())
			}
		})
	}
}

func TestMultipathIsSeenFromAPod(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		want  bool
	}{
		"nothing of it":               {want: false},
		"a host's":                    {map[string]string{"run/multipathd.pid": "1"}, true},
		"the host's by its root":      {map[string]string{"proc/1/root/run/multipathd.pid": "1"}, true},
		"the host's by its network":   {map[string]string{"proc/net/unix": "Num RefCount\n0000: 00000002 00000000 00010000 0001 01 23 @/org/kernel/linux/storage/multipathd\n"}, true},
		"another one of this network": {map[string]string{"proc/net/unix": "0000: 2 0 1 1 1 23 @/org/kernel/linux/storage/multipathd2\n"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := &Gatherer{System: System{Root: plantRoot(t, tc.files)}}
			for range 2 {
				require.Equal(t, tc.want, g.multipath().Running)
			}
		})
	}
}

func TestWhichModulesMayBeRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		want  bool
	}{
		"a plain host":       {map[string]string{"sys/module/module/parameters/sig_enforce": "N\n", "sys/kernel/security/lockdown": "[none] integrity confidentiality\n", secureBoot: "\x06\x00\x00\x00\x00"}, false},
		"Secure Boot":        {map[string]string{secureBoot: "\x06\x00\x00\x00\x01"}, true},
		"a kernel's setting": {map[string]string{"sys/module/module/parameters/sig_enforce": "Y\n"}, true},
		"lockdown":           {map[string]string{"sys/kernel/security/lockdown": "none [integrity] confidentiality\n"}, true},
		"a broken variable":  {map[string]string{secureBoot: "\x01"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := &Gatherer{System: System{Root: plantRoot(t, tc.files)}}
			require.Equal(t, tc.want, g.signedOnly())
		})
	}
	const dep = "kernel/drivers/block/loop.ko:\nupdates/dkms/drbd.ko.zst: updates/dkms/x.ko\nextra/dm-crypt.ko:\nkernel/updates/xfs.ko:\n"
	for name, want := range map[string]bool{"loop": false, "drbd": true, "dm_crypt": true, "xfs": false, "x": false} {
		require.Equal(t, want, builtBeside(dep, name), name)
	}
}

func TestAMountedCertificateIsKnown(t *testing.T) {
	g, root := plantedHost(t)
	linked(t, root, map[string]string{"pki/..data": "..v1", "pki/mounted.pem": "..data/mounted.pem"})
	require.NoError(t, os.Mkdir(filepath.Join(root, "pki/..v1"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "pki/..v1/mounted.pem"), nil, 0o440))
	require.NoError(t, os.Chmod(filepath.Join(root, "pki/..v1/mounted.pem"), 0o440))
	for range 2 {
		require.True(t, g.cert("key", "/pki/mounted.pem").Mounted)
		require.EqualValues(t, 0o440, g.cert("key", "/pki/mounted.pem").Mode)
		require.False(t, g.cert("key", "/pki/key.pem").Mounted)
	}
}
