# A node of Holdfast on each client. It runs as root and privileged, which the client's docker plugin must allow:
#
#   plugin "docker" { config { allow_privileged = true  volumes { enabled = true } } }
#
# Its certificate is on the client, below /etc/holdfast/node: ca.crt, tls.crt and tls.key, 0600 in a 0700 folder.
variable "image" {
  type        = string
  description = "the image, as it is named on the clients"
  default     = "localhost/holdfast:latest"
}

variable "datacenters" {
  type        = list(string)
  description = "where nodes run"
  default     = ["*"]
}

variable "endpoints" {
  type        = list(string)
  description = "the API addresses of all controllers, host:port"
}

job "holdfast-node" {
  type        = "system"
  datacenters = var.datacenters
  priority    = 90

  update {
    max_parallel = 1
  }

  group "node" {
    network {
      mode = "host"
      port "metrics" { static = 9811 }
    }

    task "node" {
      driver       = "docker"
      user         = "0:0"
      kill_timeout = "30s"

      config {
        image        = var.image
        network_mode = "host"
        ipc_mode     = "host"
        pid_mode     = "host"
        privileged   = true
        args = [
          "node",
          "--csi-endpoint=unix:///csi/csi.sock",
          "--data-dir=/var/lib/holdfast/node",
          "--pool-dir=/var/lib/holdfast/pool",
          "--cert=/etc/holdfast/node/tls.crt",
          "--key=/etc/holdfast/node/tls.key",
          "--ca=/etc/holdfast/node/ca.crt",
          "--metrics-listen=127.0.0.1:$${NOMAD_PORT_metrics}",
          "--endpoints=${join(",", var.endpoints)}",
          "--allow-root=/local/csi",
        ]

        # Each at its own path, for its files are named to the kernel and to the host's own tools.
        volumes = [
          "/dev:/dev",
          "/run/udev:/run/udev",
          "/run/lock/lvm:/run/lock/lvm",
          "/lib/modules:/lib/modules:ro",
          "/etc/lvm:/etc/lvm",
          "/etc/holdfast/node:/etc/holdfast/node",
        ]

        # What the node mounts here must be seen by the host, and by it after it was started again.
        mount {
          type     = "bind"
          source   = "/var/lib/holdfast"
          target   = "/var/lib/holdfast"
          readonly = false
          bind_options {
            propagation = "rshared"
          }
        }
      }

      csi_plugin {
        id                     = "csi.holdfast.storage"
        type                   = "node"
        mount_dir              = "/csi"
        stage_publish_base_dir = "/local/csi"
        health_timeout         = "60s"
      }

      resources {
        cpu    = 200
        memory = 256
      }
    }
  }
}
