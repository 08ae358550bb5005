package node

import (
	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/executor"
)

// passphrases are those of a request, none without the present one: the host decides whether the volume needs
// it. They are passed on and kept nowhere (S63).
func passphrases(secrets map[string]string) ([]executor.Passphrase, error) {
	keys, err := executor.ParsePassphrases(secrets[csiconv.PassphraseSecret], secrets[csiconv.PreviousPassphraseSecret])
	switch {
	case err != nil || keys[0].IsZero():
		return nil, err
	case keys[1].IsZero():
		return keys[:1], nil
	}
	return keys, nil
}
