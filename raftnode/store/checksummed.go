package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const checksumPrefix = "crc32c:"

// writeChecksummed replaces a small file by v as JSON and a line with its checksum. The checksum
// covers the salt: with the member's id as salt, a file copied from another member does not match.
// When it returns, the new content is durable; after a crash the file has either the old or the
// new content.
func (d dataDir) writeChecksummed(path, salt string, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	body = append(body, '\n')
	return d.replaceFile(path, append(body, checksumLine(salt, body)...))
}

// readChecksummed reads what writeChecksummed wrote, and fails when a single bit differs.
func readChecksummed(path, salt string, v any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	at := bytes.LastIndex(data, []byte(checksumPrefix))
	if at < 0 || !bytes.Equal(data[at:], checksumLine(salt, data[:at])) {
		return fmt.Errorf("checksum mismatch")
	}
	return json.Unmarshal(data[:at], v)
}

func checksumLine(salt string, body []byte) []byte {
	return fmt.Appendf(nil, "%s%08x\n", checksumPrefix, saltedChecksum(salt, body))
}

// saltedChecksum is the CRC32C of the salt and then the body.
func saltedChecksum(salt string, body []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte(salt), castagnoli), castagnoli, body)
}
