package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// savedPrefix begins the names of ConfigMaps that have a persistent volume which is made anew.
const savedPrefix = "holdfast-saved-"

// SavedName is the ConfigMap of a persistent volume that is made anew. A long name is shortened by its hash.
func SavedName(pv string) string {
	const most = 200
	if len(pv) > most {
		sum := sha256.Sum256([]byte(pv))
		pv = hex.EncodeToString(sum[:])
	}
	return savedPrefix + pv
}

// NameOfSaved is the persistent volume whose ConfigMap has the name, unless that is a hash, which no persistent volume has for a name.
func NameOfSaved(configMap string) string { return strings.TrimPrefix(configMap, savedPrefix) }

// Encode is a persistent volume as it is saved, and Decode reads it.
func Encode(pv *corev1.PersistentVolume) (string, error) {
	kept := pv.DeepCopy()
	kept.ManagedFields = nil
	text, err := json.Marshal(kept)
	return string(text), err
}

// Decode reads what Encode wrote.
func Decode(text string) (*corev1.PersistentVolume, error) {
	pv := &corev1.PersistentVolume{}
	if err := json.Unmarshal([]byte(text), pv); err != nil {
		return nil, fmt.Errorf("read a saved persistent volume: %w", err)
	}
	if pv.Name == "" || pv.UID == "" || pv.Spec.CSI == nil {
		return nil, fmt.Errorf("read a saved persistent volume: it has no name, no uid or no CSI volume")
	}
	return pv, nil
}

// ReadSaved reads the persistent volume that a ConfigMap has. What is not this driver's, or not of the ConfigMap's name, was not saved
// by the loop, and nothing is made of it.
func ReadSaved(m *corev1.ConfigMap) (pv *corev1.PersistentVolume, err error) {
	pv, err = Decode(m.Data[SavedKey])
	switch {
	case err != nil:
	case SavedName(pv.Name) != m.Name:
		err = fmt.Errorf("it has persistent volume %s, which is saved in %s", pv.Name, SavedName(pv.Name))
	case pv.Spec.CSI.Driver != Driver:
		err = fmt.Errorf("it has a persistent volume of driver %s", pv.Spec.CSI.Driver)
	}
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s/%s: %w", m.Namespace, m.Name, err)
	}
	return pv, nil
}
