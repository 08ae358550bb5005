package daemon

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/raftnode/enroll"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// JoinFlags are those with which a daemon gets its certificate by itself.
type JoinFlags struct {
	// Token is a join token's text, a secret; empty: none.
	Token string
	// TokenFile is a file with it, which may be gone once the certificate is there; - is standard input; empty: none.
	TokenFile string
	// Dir is where the certificate is when --cert, --key and --ca do not say it.
	Dir string
}

// Add adds the flags to a command's. The default folder is named after the role.
func (f *JoinFlags) Add(flags *pflag.FlagSet, role pki.Role) {
	flags.StringVar(&f.Token, "join-token", "", "`token` of `holdfast tokens create`: a host without a certificate gets it with this, once, and joins; `ps` shows it to all users of the host: prefer --join-token-file, or HOLDFAST_JOIN_TOKEN")
	flags.StringVar(&f.TokenFile, "join-token-file", "", "`file` with that token, mode 0600, which may be removed once the certificate is there; - reads it from standard input")
	flags.StringVar(&f.Dir, "tls-dir", "/var/lib/holdfast/tls-"+string(role), "`folder` with tls.crt, tls.key and ca.crt, mode 0700, where none of --cert, --key and --ca is given; --join-token writes them there")
}

// ChooseFiles names the files of the folder where none are named. Without a token, only where a certificate is there.
func (f *JoinFlags) ChooseFiles(files *pki.Files) {
	if files.Cert != "" || files.Key != "" || files.CA != "" || f.Dir == "" {
		return
	}
	own := f.ownFiles()
	if _, err := os.Lstat(own.Cert); !f.given() && errors.Is(err, fs.ErrNotExist) {
		return
	}
	*files = own
}

func (f *JoinFlags) ownFiles() pki.Files {
	return pki.Files{Cert: filepath.Join(f.Dir, "tls.crt"), Key: filepath.Join(f.Dir, "tls.key"), CA: filepath.Join(f.Dir, "ca.crt")}
}

// FilesInDir names the files of the folder where none are named, whether they are there or not.
func (f *JoinFlags) FilesInDir(files *pki.Files) {
	if files.Cert == "" && files.Key == "" && files.CA == "" {
		*files = f.ownFiles()
	}
}

// Known tells whether the cluster says, or said when the certificate was got, where its controllers are.
func (f *JoinFlags) Known(files pki.Files) bool {
	if f.ChooseFiles(&files); f.given() {
		return true
	}
	joined, err := enroll.ReadJoined(files)
	return files.Cert != "" && err == nil && len(joined.APIAddresses) > 0
}

// Enroll gets the certificate where there is a token and no certificate yet, and returns what the cluster said of itself
// then, or when the certificate was got.
func (f *JoinFlags) Enroll(ctx context.Context, files pki.Files, role pki.Role, log *slog.Logger) (joined enroll.Joined, err error) {
	if f.given() {
		if err := f.useToken(ctx, files, role, log); err != nil {
			return joined, err
		}
	}
	if files.Cert == "" {
		return joined, nil
	}
	joined, err = enroll.ReadJoined(files)
	return joined, exit.Wrap(exit.Usage, err)
}

func (f *JoinFlags) useToken(ctx context.Context, files pki.Files, role pki.Role, log *slog.Logger) error {
	text, err := f.text(files, role)
	if err != nil || text == "" {
		return err
	}
	token, err := enroll.ParseToken(text)
	switch {
	case err != nil:
		return exit.Usagef("%s: %w", f.flag(), err)
	case token.Role != role:
		return exit.Usagef("the join token: it is for a %s: start `holdfast %s` with it", token.Role, token.Role)
	case files.Cert == "" || files.Key == "" || files.CA == "":
		return exit.Usagef("the join token: name all of --cert, --key and --ca, or none of them and --tls-dir")
	}
	err = enroll.Join(ctx, token, files, time.Now())
	switch {
	case err == nil:
		log.Info("the certificate is there", "identity", string(token.Role)+"/"+token.Name, "file", files.Cert, "token", token.ID)
		return nil
	case errors.Is(err, enroll.ErrRefused):
		return exit.Wrap(exit.Refused, err)
	case errors.Is(err, enroll.ErrUnavailable):
		return exit.Wrap(exit.Unavailable, err)
	}
	return exit.Usagef("use the join token: %w", err)
}
