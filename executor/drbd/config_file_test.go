package drbd

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func testResource() executor.ResourceConfig {
	return executor.ResourceConfig{
		Volume: testVolume, Protocol: fsmpb.Protocol_PROTOCOL_C, Minor: 107, Port: 7800, BackingPath: "/dev/vg/hf-1",
		Node: "a", Address: "10.0.0.1", PeerNode: "b", PeerAddress: "10.0.0.2", Secret: "00112233445566778899aabbccddeeff",
	}
}

// newTestReplicator is a replicator in a temporary root whose kernel says version.
func newTestReplicator(t *testing.T, version string) *Replicator {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "proc/1"), 0o755))
	require.NoError(t, os.Symlink("/", filepath.Join(dir, "proc/1/root")))
	if version != "" {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "proc", "drbd"), []byte("version: "+version+" (api:1/proto:86-101)\n"), 0o600))
	}
	r := New(Config{
		Dir: filepath.Join(dir, "drbd.d"), MainFile: filepath.Join(dir, "drbd.conf"), State: filepath.Join(dir, "state"),
		procDir: filepath.Join(dir, "proc"), sysDir: filepath.Join(dir, "sys"), Hostname: func() (string, error) { return "host-1", nil },
		runner: &fakeTools{t: t},
	})
	r.resizeTimeout = time.Millisecond
	return r
}

// S127: with no policy of DRBD that discards by itself.
func TestRenderedFilesMatchTheGoldenFiles(t *testing.T) {
	for version, golden := range map[string]string{"8.4.11": "resource84.res", "9.2.11": "resource9.res"} {
		t.Run(version, func(t *testing.T) {
			text, err := newTestReplicator(t, version).files.render(testResource(), version)
			require.NoError(t, err)
			if os.Getenv("UPDATE") != "" {
				require.NoError(t, os.WriteFile(filepath.Join("testdata", golden), text, 0o600))
			}
			require.Equal(t, readTestdata(t, golden), string(text))
		})
	}
}

func TestS11_ProtocolAIsFencedWithoutAFreeze(t *testing.T) {
	res := testResource()
	for protocol, want := range map[fsmpb.Protocol]string{fsmpb.Protocol_PROTOCOL_A: "fencing resource-only;", fsmpb.Protocol_PROTOCOL_C: "fencing resource-and-stonith;"} {
		res.Protocol = protocol
		for _, version := range []string{"8.4.11", "9.2.11"} {
			text, err := newTestReplicator(t, version).files.render(res, version)
			require.NoError(t, err)
			require.Contains(t, string(text), want)
		}
	}
}

// DRBD 9 itself could not be run; its parser accepts the file.
func TestDRBDsOwnParserAcceptsTheFiles(t *testing.T) {
	drbdadm, err := exec.LookPath("drbdadm")
	if err != nil {
		t.Skip("needs drbdadm, of the package drbd-utils")
	}
	for _, golden := range []string{"resource9.res", "resource84.res"} {
		path := filepath.Join(t.TempDir(), "drbd.conf")
		text := strings.ReplaceAll(readTestdata(t, golden), `"host-1"`, `"`+hostname(t)+`"`)
		require.NoError(t, os.WriteFile(path, []byte("global { usage-count no; }\n"+text), 0o600))
		if golden == "resource84.res" {
			if drbdadm, err = exec.LookPath("/lib/drbd/drbdadm-84"); err != nil {
				t.Skip("needs drbdadm-84, of the package drbd-utils")
			}
		}
		out, err := exec.CommandContext(t.Context(), drbdadm, "-c", path, "dump", string(testVolume)).CombinedOutput()
		require.NoError(t, err, "%s: %s", golden, out)
		require.Contains(t, string(out), "fencing")
		resize := slices.Concat([]string{"-c", path, "--dry-run"}, resizeArgs(1<<30, true), []string{string(testVolume)})
		out, err = exec.CommandContext(t.Context(), drbdadm, resize...).CombinedOutput()
		require.NoError(t, err, "%s: %s", golden, out)
		require.Contains(t, string(out), "resize 107 --assume-peer-has-space --size=2097160s")
	}
}

func hostname(t *testing.T) string {
	name, err := os.Hostname()
	require.NoError(t, err)
	return name
}

func TestConfigureIsAtomicAndForRootAlone(t *testing.T) {
	r := newTestReplicator(t, "8.4.11")
	for range 2 {
		require.NoError(t, r.Configure(t.Context(), testResource()))
		entries, err := os.ReadDir(r.config.Dir)
		require.NoError(t, err)
		require.Len(t, entries, 1)
		info, err := entries[0].Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	minor, found, err := r.files.minor(testVolume)
	require.NoError(t, err)
	require.True(t, found)
	require.EqualValues(t, 107, minor)
	backing, err := r.files.backing(testVolume)
	require.NoError(t, err)
	require.Equal(t, "/dev/vg/hf-1", backing)
	inKernel, err := r.files.volumes()
	require.NoError(t, err)
	require.Equal(t, map[uint32]fsm.VolumeID{107: testVolume}, inKernel)
}

func TestConfigureRefusesWhatTheParserCouldMisread(t *testing.T) {
	for name, change := range map[string]func(*executor.ResourceConfig){
		"an id that is none":         func(r *executor.ResourceConfig) { r.Volume = "../x" },
		"a device with a quote":      func(r *executor.ResourceConfig) { r.BackingPath = `/dev/a"; fencing dont-care; "` },
		"a device that is no path":   func(r *executor.ResourceConfig) { r.BackingPath = "dev" },
		"an address that is none":    func(r *executor.ResourceConfig) { r.PeerAddress = "b.example" },
		"an address of an interface": func(r *executor.ResourceConfig) { r.Address = "fe80::1%eth0" },
		"no secret":                  func(r *executor.ResourceConfig) { r.Secret = "" },
		"a secret with a quote":      func(r *executor.ResourceConfig) { r.Secret = `0011223344556677"` },
		"no minor":                   func(r *executor.ResourceConfig) { r.Minor = 0 },
		"no port":                    func(r *executor.ResourceConfig) { r.Port = 1 << 16 },
		"no protocol":                func(r *executor.ResourceConfig) { r.Protocol = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			r, res := newTestReplicator(t, "8.4.11"), testResource()
			change(&res)
			var refused *fsm.Rejection
			for range 2 {
				require.ErrorAs(t, r.Configure(t.Context(), res), &refused)
			}
			require.NoDirExists(t, r.config.Dir)
		})
	}
}

func TestPeerNameIsNeverTheHostName(t *testing.T) {
	require.Equal(t, "b", peerName("a", "b"))
	require.Equal(t, "peer", peerName("a", "a"))
	require.Equal(t, "other", peerName("peer", "peer"))
	require.Equal(t, "peer", peerName("a", `b"`))
}

func TestTheMainFileIncludesOurs(t *testing.T) {
	r := newTestReplicator(t, "8.4.11")
	for range 2 {
		require.NoError(t, r.check.checkMainFile(t.Context()), "made when there is none")
	}
	require.NoError(t, os.WriteFile(r.config.MainFile, []byte("include \"drbd.d/global_common.conf\";\ninclude \"drbd.d/*.res\";\n"), 0o600))
	require.NoError(t, r.check.checkMainFile(t.Context()), "as Debian has it")
	require.NoError(t, os.WriteFile(r.config.MainFile, []byte("# include \"drbd.d/*.res\";\n"), 0o600))
	require.ErrorContains(t, r.check.checkMainFile(t.Context()), "does not include")
}

func TestMetadataBytes(t *testing.T) {
	r := New(Config{})
	// What drbdmeta 9.22 made and drbd 8.4.11 exported in guests: bytes of the backing device, and of the volume.
	for backing, size := range map[int64]int64{67145728: 67104768, 229376 * 512: 229296 * 512} {
		require.Equal(t, size, r.BackingCapacity(backing))
	}
	for size := int64(fsm.VolumeSizeUnit); size < 20<<40; size = size*3/2/fsm.VolumeSizeUnit*fsm.VolumeSizeUnit + fsm.VolumeSizeUnit {
		backing := r.BackingSize(size)
		require.GreaterOrEqual(t, r.BackingCapacity(backing), size)
		require.LessOrEqual(t, r.BackingCapacity(backing), size+bitmapWordBytes)
	}
	require.Zero(t, r.BackingCapacity(4096))
	require.Zero(t, r.BackingCapacity(0))
}

// S5: the kernel forgets what is out of sync in the last word of a bitmap that is fully used; whichever extents the pool
// rounds up to, no device has such a bitmap.
func TestS5_NoBitmapHasAFullLastWord(t *testing.T) {
	r := New(Config{})
	require.Zero(t, (32<<20)%bitmapWordBytes, "a size that would have one")
	for size := int64(fsm.VolumeSizeUnit); size < 8<<30; size += 1<<20 - fsm.VolumeSizeUnit*(size/fsm.VolumeSizeUnit%3) {
		for extent := int64(4 << 10); extent <= 64<<20; extent *= 2 {
			backing := (r.BackingSize(size) + extent - 1) / extent * extent
			blocks := (backing - metadataBytes(backing)) / blockBytes
			require.NotZero(t, blocks%64, "size %d, extents of %d", size, extent)
		}
	}
}

func TestTheTwoHostsHaveOneSecretAndNobodyElse(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	a, err := OpenKey(dirs[0])
	require.NoError(t, err)
	b, err := OpenKey(dirs[1])
	require.NoError(t, err)
	again, err := OpenKey(dirs[0])
	require.NoError(t, err)
	require.True(t, a.Equal(again))
	one, err := SharedSecret(a, b.PublicKey().Bytes(), testVolume)
	require.NoError(t, err)
	other, err := SharedSecret(b, a.PublicKey().Bytes(), testVolume)
	require.NoError(t, err)
	require.Equal(t, one, other)
	require.Regexp(t, hexSecret, one)
	another, err := SharedSecret(a, b.PublicKey().Bytes(), "hf-0190a0e2-7b1c-7e39-8d55-6f3b2a1c0d02")
	require.NoError(t, err)
	require.NotEqual(t, one, another)
	_, err = SharedSecret(a, []byte("short"), testVolume)
	require.Error(t, err)
	info, err := os.Stat(filepath.Join(dirs[0], keyFile))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.NoError(t, os.WriteFile(filepath.Join(dirs[0], keyFile), []byte("x"), 0o600))
	_, err = OpenKey(dirs[0])
	require.ErrorContains(t, err, "not whole", "a damaged key is not replaced: the peers know it")
	require.False(t, errors.Is(err, os.ErrNotExist))
}
