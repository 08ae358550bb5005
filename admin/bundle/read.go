package bundle

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// maxManifest bounds what is read before anything is known to be what it says.
const maxManifest = 1 << 20

// Bundle is an archive that was read and found whole. What was unpacked has no names any more, so that nothing stays of a
// process that is ended while it prints.
type Bundle struct {
	Manifest Manifest
	files    map[string]*os.File
}

// Open reads an archive and compares every file with the manifest. The error says what is wrong with it.
func Open(path string) (b *Bundle, err error) {
	if err := CheckName(path); err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the bundle: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	b = &Bundle{files: map[string]*os.File{}}
	dir, err := os.MkdirTemp("", "holdfast-bundle-") // mode 0700
	if err != nil {
		return nil, fmt.Errorf("open the bundle: %w", err)
	}
	err = b.unpack(path, file, dir)
	if removed := os.RemoveAll(dir); err == nil {
		err = removed
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the bundle %s is refused: %w", path, err), b.Close())
	}
	return b, nil
}

// Close frees what was unpacked.
func (b *Bundle) Close() error {
	var errs []error
	for _, file := range b.files {
		errs = append(errs, file.Close())
	}
	return errors.Join(errs...)
}

func (b *Bundle) unpack(path string, packed io.Reader, dir string) error {
	plain, err := decompressor(path, packed)
	if err != nil {
		return fmt.Errorf("it is damaged, or not compressed as its name says: %w", err)
	}
	archive := tar.NewReader(plain)
	if err := b.readManifest(archive); err != nil {
		return errors.Join(err, plain.Close())
	}
	for _, file := range b.Manifest.Files {
		if err := b.unpackFile(archive, file, dir); err != nil {
			return errors.Join(err, plain.Close())
		}
	}
	if _, err := archive.Next(); !errors.Is(err, io.EOF) {
		return errors.Join(errors.New("it has more than its manifest names, or is damaged behind that"), plain.Close())
	}
	// The rest holds the compression's own checksum.
	if _, err := io.Copy(io.Discard, io.LimitReader(plain, maxManifest)); err != nil {
		return errors.Join(fmt.Errorf("its end is damaged: %w", err), plain.Close())
	}
	return plain.Close()
}

func (b *Bundle) readManifest(archive *tar.Reader) error {
	head, err := archive.Next()
	if err != nil {
		return fmt.Errorf("it is truncated or damaged: %w", err)
	}
	if head.Name != manifestFile || head.Size > maxManifest {
		return errors.New("it does not begin with a manifest")
	}
	text, err := io.ReadAll(archive)
	if err != nil {
		return fmt.Errorf("its manifest is truncated: %w", err)
	}
	if err := json.Unmarshal(text, &b.Manifest); err != nil {
		return fmt.Errorf("its manifest cannot be read: %w", err)
	}
	return b.Manifest.check()
}

func (b *Bundle) unpackFile(archive *tar.Reader, file File, dir string) error {
	head, err := archive.Next()
	if err != nil {
		return fmt.Errorf("it is truncated before %s: %w", file.Name, err)
	}
	if head.Name != file.Name || head.Size != file.Bytes || head.Typeflag != tar.TypeReg {
		return fmt.Errorf("where its manifest names %s of %d bytes it has %q of %d", file.Name, file.Bytes, head.Name, head.Size)
	}
	out, err := os.OpenFile(filepath.Join(dir, file.Name), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	b.files[file.Name] = out
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(out, sum), archive); err != nil {
		return fmt.Errorf("it is truncated in %s: %w", file.Name, err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != file.SHA256 {
		return fmt.Errorf("its %s differs from the manifest: sha256 %s, not %s", file.Name, got, file.SHA256)
	}
	return nil
}

// open reads a file of the bundle from its beginning, or says why it is missing.
func (b *Bundle) open(name string) (io.Reader, error) {
	file, ok := b.Manifest.file(name)
	if !ok {
		return nil, b.Manifest.missing(name)
	}
	return io.NewSectionReader(b.files[name], 0, file.Bytes), nil
}

// answer reads an answer of the API that has no bytes, which are written as hex.
func (b *Bundle) answer(name string, into proto.Message) error {
	file, err := b.open(name)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, into); err != nil {
		return fmt.Errorf("read %s of the bundle: %w", name, err)
	}
	return nil
}
