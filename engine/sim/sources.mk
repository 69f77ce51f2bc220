src +=
