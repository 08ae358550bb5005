package daemon

import (
	"errors"
	"io"
	"io/fs"
	"os"

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

// text is the token; empty where its file is gone and the certificate is there. No error has anything of it.
func (f *JoinFlags) text(files pki.Files) (string, error) {
	switch {
	case f.Token != "" && f.TokenFile != "":
		return "", exit.Usagef("--join-token and --join-token-file: give one of them")
	case f.Token != "":
		return f.Token, nil
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
