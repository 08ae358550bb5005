package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// The roles of certificates.
const (
	controllerRole = "controller"
	nodeRole       = "node"
	adminRole      = "admin"
)

// pkiDir is where a guest has its certificates, one directory for each role.
const pkiDir = "/var/lib/holdfast/pki"

// certificate are the flags that name a guest's certificate of a role.
func certificate(role string) []string { return certificateIn(pkiDir, role) }

// certificateIn are the flags that name the certificate of a role in a directory with one for each role.
func certificateIn(dir, role string) []string {
	in := func(name string) string { return filepath.Join(dir, role, name) }
	return []string{"--cert", in("crt"), "--key", in("key"), "--ca", in("ca")}
}

// certificates makes a CA and issues with it, on the host, as an operator would.
func (c *Cluster) certificates(ctx context.Context) error {
	if _, err := c.holdfast(ctx, "ca", "make", "--ca-dir", c.path("ca"), "--cluster", "lab"); err != nil {
		return err
	}
	if err := c.age(c.path("ca", "ca.crt")); err != nil {
		return err
	}
	for _, g := range c.Lab.guests {
		for role, name := range c.identities(g) {
			if err := c.issueFor(ctx, g, role, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// age has a certificate be issued as long ago as the cluster asks for. It is good for as long from now as it was.
func (c *Cluster) age(file string) error {
	if c.config.CertificatesAge == 0 {
		return nil
	}
	return harness.AgeCertificate(c.path("ca"), file, c.config.CertificatesAge, certificateValidity)
}

// certificateValidity is for how long certificates are issued.
const certificateValidity = 90 * 24 * time.Hour

// identities are the roles that a guest has certificates for.
func (c *Cluster) identities(g *Guest) map[string]string {
	held := map[string]string{adminRole: "lab-" + g.Name()}
	if g.Index <= c.config.Controllers {
		held[controllerRole] = controllerName(g.Index)
	}
	if g.Index <= c.config.Nodes {
		held[nodeRole] = g.Name()
	}
	return held
}

// issueFor renames the files to what certificate says.
func (c *Cluster) issueFor(ctx context.Context, g *Guest, role, name string) error {
	dir := c.path("pki", g.Name(), role)
	out, err := c.holdfast(ctx, "ca", "issue", "--ca-dir", c.path("ca"), "--out", dir, "--role", role, "--name", name)
	if err != nil {
		return err
	}
	words := strings.Fields(out) // --cert FILE --key FILE --ca FILE
	if len(words) != 6 {
		return fmt.Errorf("`holdfast ca issue` answers something else: %s", out)
	}
	for i, to := range []string{"crt", "key", "ca"} {
		if err := os.Rename(words[2*i+1], filepath.Join(dir, to)); err != nil {
			return err
		}
	}
	return c.age(filepath.Join(dir, "crt"))
}

// copyCertificates puts a guest's certificates into it.
func (c *Cluster) copyCertificates(ctx context.Context, g *Guest) error {
	for role := range c.identities(g) {
		for _, name := range []string{"crt", "key", "ca"} {
			content, err := os.ReadFile(c.path("pki", g.Name(), role, name))
			if err != nil {
				return err
			}
			if err := g.Put(ctx, filepath.Join(pkiDir, role, name), content, 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Cluster) path(parts ...string) string {
	return filepath.Join(append([]string{c.Lab.Dir(), "cluster"}, parts...)...)
}

// holdfast runs the binary under test on the host.
func (c *Cluster) holdfast(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, c.Lab.Holdfast(), args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("holdfast %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}
