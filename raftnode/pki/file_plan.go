package pki

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// FilePlan is what a verb does to files. Its steps are in an order in which each of them leaves folders that can
// be loaded; a verb that was interrupted is repeated, and finds what is left.
type FilePlan struct {
	Steps []FileStep
	// Next is what the operator does after it, for people.
	Next string
}

// FileStep is one step of a plan.
type FileStep struct {
	Action  string // a verb and what it is done to
	Subject string // the file
	Detail  string
	do      func() error // nil: it is done already
}

// Done tells whether nothing is left of the step.
func (s *FileStep) Done() bool { return s.do == nil }

// Todo is how many steps are left.
func (p *FilePlan) Todo() (n int) {
	for i := range p.Steps {
		if !p.Steps[i].Done() {
			n++
		}
	}
	return n
}

// CarryOut does what is left. After an error the same verb goes on.
func (p *FilePlan) CarryOut() error {
	for i := range p.Steps {
		s := &p.Steps[i]
		if s.Done() {
			continue
		}
		if err := removeUnfinished(filepath.Dir(s.Subject)); err != nil {
			return fmt.Errorf("%s: %w", s.Action, err)
		}
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w; nothing is lost, the same command goes on", s.Action, err)
		}
		s.do = nil
	}
	return nil
}

// unfinishedFor is how old a file is that was being written when its verb was killed, in any case.
const unfinishedFor = time.Hour

// removeUnfinished removes what a killed verb was writing: it may hold a key.
func removeUnfinished(dir string) error {
	found, err := filepath.Glob(filepath.Join(escapeGlob(dir), tempPrefix+"*"))
	if err != nil {
		return err
	}
	for _, path := range found {
		info, err := os.Lstat(path)
		if err == nil && time.Since(info.ModTime()) > unfinishedFor {
			err = os.Remove(path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (p *FilePlan) add(done bool, do func() error, action, subject, format string, args ...any) {
	s := FileStep{Action: action, Subject: subject, Detail: fmt.Sprintf(format, args...)}
	if !done {
		s.do = do
	}
	p.Steps = append(p.Steps, s)
}

// leafFiles are the key pairs of identities in a folder.
type leafFiles struct {
	Files
	dir  string
	cert Certificate
	ca   func(*issuer) bool // whether that CA signed it
}

// leavesIn finds the key pairs in folders by their file names, and reads them.
func leavesIn(folders []string) (all []leafFiles, err error) {
	for _, dir := range folders {
		found, err := filepath.Glob(filepath.Join(escapeGlob(dir), "*.crt"))
		if err != nil {
			return nil, fmt.Errorf("list the certificates in %s: %w", dir, err)
		}
		if err := checkPrivateDir(dir); err != nil {
			return nil, err
		}
		for _, path := range found {
			leaf, ok, err := readLeaf(dir, path)
			if err != nil {
				return nil, err
			}
			if ok {
				all = append(all, leaf)
			}
		}
	}
	return all, nil
}

func escapeGlob(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

// readLeaf reads one pair; false for the certificates of CAs, and where the key is elsewhere.
func readLeaf(dir, path string) (leafFiles, bool, error) {
	key := strings.TrimSuffix(path, ".crt") + ".key"
	if _, err := os.Lstat(key); err != nil {
		return leafFiles{}, false, nil
	}
	pair, err := readPair(path, key)
	if err != nil {
		return leafFiles{}, false, err
	}
	if pair.Leaf.IsCA {
		return leafFiles{}, false, nil
	}
	cert, err := ReadCertificate(pair.Leaf)
	if err != nil {
		return leafFiles{}, false, fmt.Errorf("%s: %w", path, err)
	}
	return leafFiles{
		Files: Files{Cert: path, Key: key, CA: filepath.Join(dir, caCert)}, dir: dir, cert: cert,
		ca: func(ca *issuer) bool { return pair.Leaf.CheckSignatureFrom(ca.Leaf) == nil },
	}, true, nil
}
