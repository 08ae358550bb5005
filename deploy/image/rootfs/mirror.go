package rootfs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

const (
	suite   = "bookworm"
	keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
)

// Sources are lines of sources.list for the image's suite: of the mirrors that are named, the archive and, where there is a
// second one, its security updates; else of the mirrors that this machine's own apt uses. The signatures of named mirrors are
// checked as any, but a dated one may have expired.
func Sources(mirrors []string) ([]string, error) {
	switch len(mirrors) {
	case 0:
		return machineSources()
	case 1:
		return archiveLines(mirrors[0], "check-valid-until=no "), nil
	case 2:
		return append(archiveLines(mirrors[0], "check-valid-until=no "), securityLine(mirrors[1], "check-valid-until=no ")), nil
	}
	return nil, fmt.Errorf("%d mirrors are named: name the archive and, after it, its security updates", len(mirrors))
}

func archiveLines(uri, options string) []string {
	return []string{line(uri, options, suite), line(uri, options, suite+"-updates")}
}

func securityLine(uri, options string) string { return line(uri, options, suite+"-security") }

func line(uri, options, name string) string {
	return fmt.Sprintf("deb [%ssigned-by=%s] %s %s main", options, keyring, uri, name)
}

// machineSources asks apt for its mirrors of Debian, whatever release this machine has. apt knows whose a mirror is once it
// has fetched its lists.
func machineSources() ([]string, error) {
	targets, err := debianTargets()
	if err == nil && len(targets) == 0 && os.Geteuid() == 0 {
		if out, err := exec.Command("apt-get", "update", "-qq").CombinedOutput(); err != nil {
			return nil, fmt.Errorf("fetch the lists of this machine's apt: %w: %s", err, out)
		}
		targets, err = debianTargets()
	}
	if err != nil {
		return nil, err
	}
	lines := sourceLines(targets)
	if len(lines) == 0 {
		return nil, errors.New("apt of this machine knows no mirror of Debian: run `apt-get update`, or set IMAGE_MIRROR")
	}
	return lines, nil
}

// debianTargets are lines of a URI and a label.
func debianTargets() ([]string, error) {
	out, err := exec.Command("apt-get", "indextargets", "--format", "$(REPO_URI) $(LABEL)", "Created-By: Packages", "Origin: Debian").Output()
	if err != nil {
		return nil, fmt.Errorf("ask apt for its mirrors: %w", err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n"), nil
}

func sourceLines(targets []string) []string {
	var lines []string
	for _, target := range targets {
		uri, label, _ := strings.Cut(target, " ")
		switch label {
		case "Debian":
			lines = append(lines, archiveLines(uri, "")...)
		case "Debian-Security":
			lines = append(lines, securityLine(uri, ""))
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}
