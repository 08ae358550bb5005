package daemon

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// maxTokenFile is more than any token has.
const maxTokenFile = 16 << 10

// given tells whether there is a token, in whatever form.
func (f *JoinFlags) given() bool { return f.Token != "" || f.TokenFile != "" }

func (f *JoinFlags) flag() string {
	if f.Token == "" {
		return "--join-token-file"
	}
	return "--join-token"
}

// text is the token. It is empty, and no file or standard input is read, where the role's certificate is there: at a later start a
// unit's standard input has nothing. It is also empty where its file is gone and a certificate is there. No error has anything of it.
func (f *JoinFlags) text(files pki.Files, role pki.Role) (string, error) {
	switch {
	case f.Token != "" && f.TokenFile != "":
		return "", exit.Usagef("--join-token and --join-token-file: give one of them")
	case f.Token != "":
		return f.Token, nil
	case hasCertificate(files, role, time.Now()):
		return "", nil
	case f.TokenFile == "-":
		return readToken(os.Stdin)
	}
	file, err := os.Open(f.TokenFile)
	if _, there := os.Lstat(files.Cert); there == nil && errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", exit.Usagef("--join-token-file: %w", err)
	}
	defer func() { _ = file.Close() }() // it was read only
	info, err := file.Stat()
	switch {
	case err != nil:
		return "", exit.Usagef("--join-token-file: %w", err)
	case info.Mode().Perm()&0o077 != 0:
		return "", exit.Usagef("--join-token-file: %s has mode %#o, so others than its owner can read the token: chmod 600 it", f.TokenFile, info.Mode().Perm())
	}
	return readToken(file)
}

// hasCertificate tells whether a certificate of the role is there that has not expired. What is wrong with a file is said when it is used.
func hasCertificate(files pki.Files, role pki.Role, now time.Time) bool {
	have, ok, err := pki.Installed(files.Cert)
	return err == nil && ok && have.Role == role && now.Before(have.NotAfter)
}

func readToken(from io.Reader) (string, error) {
	content, err := io.ReadAll(io.LimitReader(from, maxTokenFile))
	switch {
	case err != nil:
		return "", exit.Usagef("--join-token-file: %w", err)
	case len(content) == 0:
		return "", exit.Usagef("--join-token-file: it is empty")
	}
	return string(content), nil
}
