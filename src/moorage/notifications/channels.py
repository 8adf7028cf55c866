MAILS = "moorage_mails"
