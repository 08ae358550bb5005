package backup

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"filippo.io/age"
)

// ageIntro begins every file that age encrypted.
const ageIntro = "age-encryption.org/"

// Encrypt encrypts what is written to the recipients; without any it is left as it is. Close ends the encryption
// and not w.
func Encrypt(w io.Writer, recipients []age.Recipient) (io.WriteCloser, error) {
	if len(recipients) == 0 {
		return plain{w}, nil
	}
	out, err := age.Encrypt(w, recipients...)
	if err != nil {
		return nil, fmt.Errorf("encrypt a backup: %w", err)
	}
	return out, nil
}

type plain struct{ io.Writer }

func (plain) Close() error { return nil }

// Decrypt reads a backup that may be encrypted.
func Decrypt(r io.Reader, identities []age.Identity) (io.Reader, error) {
	in := bufio.NewReaderSize(r, frameBytes)
	begin, err := in.Peek(len(ageIntro))
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, readError(err)
	case !bytes.Equal(begin, []byte(ageIntro)):
		return in, nil
	case len(identities) == 0:
		return nil, fmt.Errorf("%w: it is encrypted: name the file of a recipient's identity with --identity", ErrDamaged)
	}
	out, err := age.Decrypt(in, identities...)
	if err != nil {
		return nil, fmt.Errorf("%w: decrypt it: %w", ErrDamaged, err)
	}
	return out, nil
}

// Recipients reads recipients' public keys, from the arguments and from a file with one a line; file may be empty.
func Recipients(keys []string, file string) ([]age.Recipient, error) {
	var all []age.Recipient
	if file != "" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("read the recipients of backups: %w", err)
		}
		defer func() { _ = f.Close() }()
		if all, err = age.ParseRecipients(f); err != nil {
			return nil, fmt.Errorf("read the recipients of backups in %s: %w", file, err)
		}
	}
	for i, key := range keys {
		r, err := age.ParseRecipients(strings.NewReader(key))
		if err != nil {
			return nil, fmt.Errorf("recipient %d of backups is no public key of age, which begins with age1", i+1) // it may be a secret one
		}
		all = append(all, r...)
	}
	return all, nil
}

// Identities reads a file of identities, which decrypt; file may be empty. An error never holds what is in it.
func Identities(file string) ([]age.Identity, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read the identity: %w", err)
	}
	defer func() { _ = f.Close() }()
	all, err := age.ParseIdentities(f)
	if err != nil {
		return nil, fmt.Errorf("read the identity in %s: it holds no identity of age in every line that is not a comment", file)
	}
	return all, nil
}
