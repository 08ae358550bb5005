package daemon

import (
	"context"
	"log/slog"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/raftnode/enroll"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// mostPause is the longest pause between two attempts to enrol.
const mostPause = 30 * time.Second

// EnrollFlags are those with which a node gets its certificate, and all that follow, by a token of its orchestrator.
type EnrollFlags struct {
	Endpoints     []string
	TokenFile, CA string
}

// Add adds the flags to a command's.
func (f *EnrollFlags) Add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.Endpoints, "enroll-endpoints", nil, "`addresses` of the controllers' --enroll-listen: this host gets its certificate there, and renews it, in --tls-dir; with --node-id, --enroll-token-file and --enroll-ca")
	flags.StringVar(&f.TokenFile, "enroll-token-file", "", "`file` with the token of this host's pod, of the audience holdfast-enroll, which the orchestrator replaces in time")
	flags.StringVar(&f.CA, "enroll-ca", "", "`file` with the cluster's CAs, the one that signs first: the token goes to controllers that they certified, and to nobody else")
}

// Given tells whether this host enrols so.
func (f *EnrollFlags) Given() bool { return len(f.Endpoints) > 0 || f.TokenFile != "" || f.CA != "" }

// Check validates combinations of flags.
func (f *EnrollFlags) Check(name string, join *JoinFlags) error {
	switch {
	case !f.Given():
		return nil
	case len(f.Endpoints) == 0 || f.TokenFile == "" || f.CA == "" || name == "":
		return exit.Usagef("--enroll-endpoints, --enroll-token-file, --enroll-ca and --node-id: give all of them, or none of the first three")
	case join.given():
		return exit.Usagef("--enroll-endpoints and --join-token: give one of them")
	}
	return nil
}

// Node is what enrols the node. Its certificate is in the folder of --tls-dir unless other files are named.
func (f *EnrollFlags) Node(name string, files pki.Files) *enroll.Node {
	return &enroll.Node{Name: name, Endpoints: f.Endpoints, TokenFile: f.TokenFile, CAFile: f.CA, Files: files}
}

// FirstCertificate waits until the node has a certificate that can be used.
func FirstCertificate(ctx context.Context, n *enroll.Node, log *slog.Logger) error {
	err := n.First(ctx, mostPause, func(err error) {
		log.Warn("this node has no certificate yet: it waits for one, and asks again", "node", n.Name, "why", err.Error())
	})
	return exit.Wrap(exit.Unavailable, err)
}

// KeepCertificate renews the certificate until ctx ends.
func KeepCertificate(ctx context.Context, n *enroll.Node, log *slog.Logger) {
	n.Keep(ctx, lookEvery, func(changed bool, err error) {
		switch {
		case changed:
			log.Info("this node has another certificate", "node", n.Name, "file", n.Files.Cert)
		case err != nil:
			log.Warn("this node cannot renew its certificate now, and goes on with the one that it has", "node", n.Name, "why", err.Error())
		}
	})
}
