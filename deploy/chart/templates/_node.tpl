{{- define "holdfast.nodeSocketFolder" -}}
{{ .Values.node.kubeletDir }}/plugins/{{ include "holdfast.driver" . }}
{{- end }}

{{- /* Whether the pods see the host's processes: the checks of replication look at the host's own files through its first one. */ -}}
{{- define "holdfast.nodeHostPID" -}}
{{- if kindIs "bool" .Values.node.hostPID }}{{ .Values.node.hostPID }}{{ else }}{{ .Values.node.replication.enabled }}{{ end }}
{{- end }}

{{- define "holdfast.nodeHandler" -}}{{ .Values.node.dataDir }}/bin/holdfast{{- end }}

{{- define "holdfast.nodeTLSDir" -}}
{{- if eq .Values.pki.mode "existing" }}{{ .Values.pki.existing.nodeTLSDir }}{{ else }}{{ .Values.node.dataDir }}/tls-node{{ end }}
{{- end }}

{{- define "holdfast.nodeArgs" -}}
{{- $n := .Values.node }}
{{ include "holdfast.commonArgs" . }}
- --node-id=$(NODE_NAME)
- --endpoints={{ include "holdfast.controllerAddresses" (dict "root" . "port" 9802) }}
- --data-dir={{ $n.dataDir }}/node
- --tls-dir={{ include "holdfast.nodeTLSDir" . }}
- --csi-endpoint=unix:///csi/csi.sock
- --kubelet-csi-path={{ include "holdfast.nodeSocketFolder" . }}/csi.sock
- --kubelet-registration={{ $n.kubeletDir }}/plugins_registry/{{ include "holdfast.driver" . }}-reg.sock
- --allow-root={{ $n.kubeletDir }}
- --metrics-listen={{ if include "holdfast.nodeMetricsOpen" . }}[$(HOST_IP)]{{ else }}127.0.0.1{{ end }}:9811
{{- if ne .Values.pki.mode "existing" }}
- --enroll-endpoints={{ include "holdfast.controllerAddresses" (dict "root" . "port" 9803) }}
- --enroll-token-file=/var/run/secrets/holdfast/token
- --enroll-ca=/etc/holdfast/enroll/ca.crt
{{- end }}
{{- with $n.pools.dir }}
- --pool-dir={{ . }}
{{- end }}
{{- range $n.pools.lvm }}
- --pool=lvm:{{ . }}
{{- end }}
{{- range $key, $value := $n.topologyLabels }}
- --label={{ $key }}={{ $value }}
{{- end }}
{{- if .Values.zoneFromNode }}
- --label=topology.holdfast.storage/zone=$(ZONE)
{{- end }}
- --max-volumes={{ int $n.maxVolumes }}
- --overcommit={{ $n.overcommit }}
- --min-free={{ $n.minFree }}
{{- with $n.ioCgroup }}
- --io-cgroup={{ . }}
{{- end }}
{{- if $n.volumeMountGroup }}
- --volume-mount-group
{{- end }}
{{- if $n.replication.enabled }}
- --replication-address={{ if eq $n.replication.addressFrom "hostIP" }}$(HOST_IP){{ else }}{{ $n.replication.addressFrom }}{{ end }}
- --handler={{ include "holdfast.nodeHandler" . }}
{{- if $n.replication.selfFence }}
- --self-fence=reboot
{{- end }}
{{- end }}
{{- end }}

{{- /*
The arguments of a node's pod as the file that --config reads on a host. What is a pod's own is left out: its name, its sockets and
listeners, where its token is, and what differs from host to host.
*/ -}}
{{- define "holdfast.nodeFile" -}}
{{- $own := list "node-id" "csi-endpoint" "kubelet-csi-path" "metrics-listen" "handler" "addons-token-file" "enroll-endpoints" "enroll-token-file" "enroll-ca" }}
{{- $lists := list "endpoints" "pool" "label" "disable-capability" "allow-root" }}
{{- $file := dict "csi-endpoint" "unix:///run/holdfast/node.sock" }}
{{- if ne .Values.pki.mode "existing" }}{{- $_ := set $file "join-token-file" "/etc/holdfast/node/token" }}{{ end }}
{{- range concat (fromYamlArray (include "holdfast.nodeArgs" .)) .Values.node.extraArgs }}
{{- if not (hasPrefix "--" .) }}{{ fail (printf "node.extraArgs has %q, which is no flag: where node.mode is host, write each as --flag=value." .) }}{{ end }}
{{- $key := trimPrefix "--" . | splitList "=" | first }}
{{- $value := trimPrefix (printf "--%s" $key) . | trimPrefix "=" | default "true" }}
{{- if not (or (has $key $own) (contains "$(" $value)) }}
{{- if has $key $lists }}
{{- $_ := set $file $key (concat (get $file $key | default list) (splitList "," $value)) }}
{{- else }}
{{- $_ := set $file $key $value }}
{{- end }}
{{- end }}
{{- end }}
{{- toYaml $file }}
{{- end }}

{{- /*
The socket's folder is made by kubelet, for nobody else does. Mounted under its own path, below kubelet's folder, the mount itself
would propagate to the host, and one would stay behind there with every restart.
*/ -}}
{{- define "holdfast.nodeSocketMount" -}}
- {name: socket, mountPath: /csi}
{{- end }}

{{- /*
Folders of the host, all under their own paths: what is written into mount tables and kernels must be true on the host. Of the
control groups a container has its own only, and limits are of those of other pods.
*/ -}}
{{- define "holdfast.nodeFolders" -}}
{{- $n := .Values.node }}
{{- $folders := list
    (dict "name" "kubelet" "path" $n.kubeletDir "type" "Directory" "propagate" true)
    (dict "name" "data" "path" $n.dataDir "type" "DirectoryOrCreate" "propagate" true)
    (dict "name" "dev" "path" "/dev" "type" "Directory")
    (dict "name" "modules" "path" "/lib/modules" "type" "DirectoryOrCreate" "readOnly" true)
    (dict "name" "udev" "path" "/run/udev" "type" "DirectoryOrCreate")
    (dict "name" "cgroup" "path" "/sys/fs/cgroup" "type" "Directory")
    (dict "name" "fence" "path" "/run/holdfast" "type" "DirectoryOrCreate") }}
{{- if and $n.pools.dir (not (hasPrefix (printf "%s/" $n.dataDir) $n.pools.dir)) }}
{{- $folders = append $folders (dict "name" "pool" "path" $n.pools.dir "type" "DirectoryOrCreate" "propagate" true) }}
{{- end }}
{{- if and (eq .Values.pki.mode "existing") (not (hasPrefix (printf "%s/" $n.dataDir) .Values.pki.existing.nodeTLSDir)) }}
{{- $folders = append $folders (dict "name" "tls" "path" .Values.pki.existing.nodeTLSDir "type" "Directory") }}
{{- end }}
{{- if $n.pools.lvm }}
{{- $folders = concat $folders (list
    (dict "name" "lvm" "path" "/etc/lvm" "type" "DirectoryOrCreate")
    (dict "name" "lvm-lock" "path" "/run/lock/lvm" "type" "DirectoryOrCreate")) }}
{{- end }}
{{- if $n.replication.enabled }}
{{- $folders = concat $folders (list
    (dict "name" "drbd" "path" "/etc/drbd.d" "type" "DirectoryOrCreate")
    (dict "name" "drbd-conf" "path" "/etc/drbd.conf" "type" "File")
    (dict "name" "drbd-lib" "path" "/var/lib/drbd" "type" "DirectoryOrCreate")
    (dict "name" "lock" "path" "/run/lock" "type" "DirectoryOrCreate")) }}
{{- end }}
{{- toYaml $folders }}
{{- end }}

{{- define "holdfast.nodeMounts" -}}
{{ include "holdfast.nodeSocketMount" . }}
{{- range fromYamlArray (include "holdfast.nodeFolders" .) }}
- name: {{ .name }}
  mountPath: {{ .path }}
  {{- if .propagate }}
  mountPropagation: Bidirectional
  {{- end }}
  {{- if .readOnly }}
  readOnly: true
  {{- end }}
{{- end }}
{{- if ne .Values.pki.mode "existing" }}
- {name: enroll-token, mountPath: /var/run/secrets/holdfast, readOnly: true}
- {name: enroll-ca, mountPath: /etc/holdfast/enroll, readOnly: true}
{{- end }}
{{- include "holdfast.addonsMount" . }}
{{- end }}

{{- define "holdfast.nodeVolumes" -}}
- name: socket
  hostPath: {path: {{ include "holdfast.nodeSocketFolder" . }}, type: DirectoryOrCreate}
{{- if .Values.node.replication.enabled }}
- name: host-root
  hostPath: {path: /, type: Directory}
{{- end }}
{{- range fromYamlArray (include "holdfast.nodeFolders" .) }}
- name: {{ .name }}
  hostPath: {path: {{ .path }}, type: {{ .type }}}
{{- end }}
{{- if ne .Values.pki.mode "existing" }}
# Bound to this pod and its node: controllers sign for that node's name only.
- name: enroll-token
  projected:
    defaultMode: 0400
    sources:
      - serviceAccountToken: {path: token, audience: holdfast-enroll, expirationSeconds: 600}
- name: enroll-ca
  configMap:
    # Made by the first controller; until then the pod waits.
    name: holdfast-ca-bundle
    items: [{key: ca.crt, path: ca.crt}]
{{- end }}
{{- include "holdfast.addonsVolume" . }}
{{- end }}
