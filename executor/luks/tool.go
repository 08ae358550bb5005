package luks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm"
)

// toolTimeout bounds one command. A key's derivation takes a second, and much longer on a busy host.
const toolTimeout = 2 * time.Minute

// Runner runs the commands.
type Runner interface {
	Run(ctx context.Context, c run.Command) ([]byte, error)
}

// Derivation is how a slot's key is derived from its passphrase.
type Derivation []string

// The ways to derive a key. Argon2id with 64 MiB costs who guesses memory, and leaves a host that stages many
// volumes at once enough of it; cryptsetup chooses how many rounds take a second here.
// QuickDerivation protects nothing: it is for tests.
var (
	DefaultDerivation = Derivation{"--pbkdf", "argon2id", "--pbkdf-memory", "65536", "--pbkdf-parallel", "1", "--iter-time", "1000"}
	QuickDerivation   = Derivation{"--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"}
)

// Tool implements executor.Encryptor with cryptsetup.
type Tool struct {
	runner     Runner
	derivation Derivation
	sysfs      string // where the kernel reports block devices
	control    string // where the device mapper takes requests
}

var _ executor.Encryptor = (*Tool)(nil)

// New returns a Tool. A nil derivation is DefaultDerivation.
func New(runner Runner, derivation Derivation) *Tool {
	if derivation == nil {
		derivation = DefaultDerivation
	}
	return &Tool{runner: runner, derivation: derivation, sysfs: "/sys/block", control: "/dev/mapper/control"}
}

// Check returns why this host cannot encrypt: cryptsetup, or the kernel's device mapper, is missing.
func (t *Tool) Check(ctx context.Context) error {
	if _, err := t.run(ctx, nil, "--version"); err != nil {
		return fmt.Errorf("encrypt volumes: %w", err)
	}
	if err := t.checkDeviceMapper(); err != nil {
		return fmt.Errorf("encrypt volumes: %s: %w", noDeviceMapper, err)
	}
	return nil
}

const (
	noDeviceMapper = "the kernel of this host has no device mapper: run `modprobe dm_crypt` on it, and have that done at each boot"
	noCipher       = "the kernel of this host has no dm_crypt, or not the cipher of the volume: run `modprobe dm_crypt` on it, and see its kernel log"
)

// checkDeviceMapper opens the kernel's device mapper, which loads it where it is a module that can be found.
func (t *Tool) checkDeviceMapper() error {
	f, err := os.OpenFile(t.control, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// lacking is a Precondition where a mapping failed as the kernel has no support for it, else nil. Of several lines
// that cryptsetup prints only the last is known, which of a missing device mapper says nothing.
func (t *Tool) lacking(err error) error {
	var failed *run.Error
	switch {
	case !errors.As(err, &failed):
		return nil
	case t.checkDeviceMapper() != nil:
		return fsm.Reject(fsm.Precondition, "this host cannot encrypt volumes: %s", noDeviceMapper)
	case strings.Contains(failed.Output, "Check that kernel supports"):
		return fsm.Reject(fsm.Precondition, "this host cannot encrypt volumes: %s", noCipher)
	}
	return nil
}

// run runs cryptsetup with what it reads from its standard input.
func (t *Tool) run(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	out, err := t.runner.Run(ctx, run.Command{Tool: "cryptsetup", Args: args, Stdin: stdin, Timeout: toolTimeout})
	var missing *run.MissingError
	if errors.As(err, &missing) {
		return nil, fsm.Reject(fsm.Precondition, "this host cannot encrypt volumes: %v", missing)
	}
	return out, classifyError(err)
}

// mappingPrefix begins the name of every mapping.
const mappingPrefix = "hfc-"

// mappingName is the name of the volume's mapping.
func mappingName(id fsm.VolumeID) string {
	return mappingPrefix + strings.TrimPrefix(string(id), "hf-")
}

func mappingPath(id fsm.VolumeID) string { return "/dev/mapper/" + mappingName(id) }

func slotFlag(slot int) []string { return []string{"--key-slot", strconv.Itoa(slot)} }

// args joins the words of a command.
func args(parts ...[]string) (all []string) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// fromStdin says that the passphrase comes from there.
var fromStdin = []string{"--key-file", "-"}
