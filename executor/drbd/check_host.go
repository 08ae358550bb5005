package drbd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/durablefile"
	"github.com/holdfast-storage/holdfast/executor/run"
)

// hostCheck finds out whether this host can hold replicas at all.
type hostCheck struct {
	config *Config
	kernel *kernelState
}

// run returns why this host cannot hold replicated volumes; nil when it can. It loads the module
// when it is not loaded.
func (c *hostCheck) run(ctx context.Context) error {
	for _, check := range []func(context.Context) error{c.checkTools, c.checkModule, c.checkDigests, c.checkNamespaces, c.checkMainFile, c.checkHelper, c.checkHandler} {
		if err := check(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *hostCheck) checkTools(context.Context) error {
	for _, tool := range []string{"drbdadm", "drbdsetup", "drbdmeta"} {
		if _, err := c.config.runner.LookPath(tool); err != nil {
			return err
		}
	}
	return nil
}

// checkModule loads the kernel module when it is not loaded, and checks its version.
func (c *hostCheck) checkModule(ctx context.Context) error {
	version := c.kernel.version()
	if version == "" {
		if err := c.modprobe(ctx, "drbd"); err != nil {
			return fmt.Errorf("load the kernel's module drbd: %w", err)
		}
		version = c.kernel.version()
	}
	if !strings.HasPrefix(version, "8.4.") && major(version) < 9 {
		return fmt.Errorf("the kernel's DRBD is %q; 8.4 or 9 is needed", version)
	}
	return nil
}

func (c *hostCheck) modprobe(ctx context.Context, module string) error {
	_, err := c.config.runner.Run(ctx, run.Command{Tool: "modprobe", Args: []string{module}, Timeout: queryTimeout})
	return err
}

// checkDigests checks that this kernel has the digests that the resource files name: two hosts of
// which only one has a digest would never connect.
func (c *hostCheck) checkDigests(ctx context.Context) error {
	for _, digest := range []string{c.config.Options.Auth, c.config.Options.Verify} {
		if c.hasDigest(digest) {
			continue
		}
		if err := c.modprobe(ctx, "crypto-"+digest); err != nil || !c.hasDigest(digest) {
			return fmt.Errorf("the kernel has no %s, which DRBD is configured with", digest)
		}
	}
	return nil
}

func (c *hostCheck) hasDigest(digest string) bool {
	text, err := os.ReadFile(filepath.Join(c.config.procDir, "crypto"))
	return err == nil && regexp.MustCompile(`(?m)^name\s*: `+regexp.QuoteMeta(digest)+`$`).Match(text)
}

var includeLine = regexp.MustCompile(`(?m)^\s*include\s+"([^"]+)"\s*;`)

// checkMainFile checks that the main file, which the tools read also when the kernel calls them,
// includes our directory. It is created only when there is none.
func (c *hostCheck) checkMainFile(context.Context) error {
	main := c.config.MainFile
	text, err := os.ReadFile(main)
	if errors.Is(err, fs.ErrNotExist) && !c.root().isOwn() {
		return fmt.Errorf("%s is missing: %s", main, mountRemedy(main))
	}
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(c.config.Dir, 0o755); err != nil {
			return err
		}
		return durablefile.Write(main, mainFileContent(c.config.Dir), 0o644)
	}
	if err != nil {
		return fmt.Errorf("read DRBD's configuration: %w", err)
	}
	sample := filepath.Join(c.config.Dir, filePrefix+"x"+fileSuffix)
	for _, m := range includeLine.FindAllSubmatch(text, -1) {
		pattern := string(m[1])
		if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(filepath.Dir(main), pattern)
		}
		if matched, err := filepath.Match(pattern, sample); err == nil && matched {
			return nil
		}
	}
	return fmt.Errorf("%s does not include %s", main, filepath.Join(c.config.Dir, "*"+fileSuffix))
}

// mainFileContent is a main file that includes the resource files of a directory.
func mainFileContent(dir string) []byte {
	return fmt.Appendf(nil, "%sglobal { usage-count no; }\ninclude %q;\n", fileHeader, filepath.Join(dir, "*"+fileSuffix))
}

// checkHelper checks that the kernel's user-mode helper is an existing drbdadm (S13).
func (c *hostCheck) checkHelper(context.Context) error {
	text, err := os.ReadFile(filepath.Join(c.config.sysDir, "module/drbd/parameters/usermode_helper"))
	if err != nil {
		return fmt.Errorf("ask the kernel for DRBD's helper: %w", err)
	}
	helper := strings.TrimSpace(string(text))
	switch {
	case helper == "disabled":
		return errors.New("the kernel's helper for DRBD is disabled on this host: no handler would be called. Set usermode_helper=/sbin/drbdadm for the module drbd, " +
			"or keep no replicas here (leave out --replication-address)")
	case filepath.Base(helper) != "drbdadm" || !filepath.IsAbs(helper):
		return fmt.Errorf("the kernel's helper for DRBD is %q, not drbdadm: no handler would be called", helper)
	}
	if err := c.root().checkProgram(helper); err != nil {
		return fmt.Errorf("the kernel's helper for DRBD: %w: install drbd-utils on the host itself", err)
	}
	return nil
}

// checkHandler checks that the kernel will find this program and its configuration, and runs it as the kernel would: it
// must reach the node process (S13).
func (c *hostCheck) checkHandler(ctx context.Context) error {
	handler := c.config.Handler
	if err := c.root().checkProgram(handler); err != nil {
		return fmt.Errorf("the handler for the kernel: %w: copy this program there, in a pod with `holdfast install-handler`", err)
	}
	for _, path := range []string{c.config.MainFile, c.config.Dir, c.config.State} {
		if !c.root().shares(path) {
			return fmt.Errorf("%s is not the host's own, which the kernel's drbdadm reads: %s", path, mountRemedy(path))
		}
	}
	args := []string{"fence-peer", "--self-test"}
	if c.config.Socket != "" {
		args = append(args, "--socket", c.config.Socket)
	}
	command := run.Command{Root: c.root().forCommands(), Tool: handler, Args: args, Timeout: 10 * time.Second}
	if _, err := c.config.runner.Run(ctx, command); err != nil {
		return fmt.Errorf("the handler %s does not reach this node: %w%s", handler, err, c.root().socketRemedy())
	}
	return nil
}

func sameFile(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}
